"""A contract type: nodes come and go with demand, but half of the count is paid for in any case.

In a spec file: ``[[contract]]`` with ``terms = "half_committed"``.
"""

from tidemill.extend import Contract, ContractType, add_contract_type


def half(contract: Contract) -> int:
    """Accelerators that are paid for while the contract runs, launched or not."""
    return contract.count // 2


add_contract_type("half_committed", ContractType(half, is_elastic=True))
