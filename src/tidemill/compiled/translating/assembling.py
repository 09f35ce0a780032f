"""Machine code of a module, made by LLVM."""

from typing import Any

from llvmlite import binding

SPEED = 2
"""How hard LLVM tries, of 3. Loops are neither unrolled nor vectorised: they end early, or call.
Measured on 17 November 2026 over the kernels of a replay: 18.1 CPU-seconds to compile, 29.6 with 3
and both; ordinary fleets, a backlog on 6,000 nodes, placing and Muri's traces took the same time.
"""


def assemble(text: str, machine: Any) -> tuple[bytes, list[str]]:  # noqa: ANN401 - of LLVM, without types
    """The object file of a module, and the symbols that it takes from elsewhere."""
    module = binding.parse_assembly(text)
    module.triple = binding.get_process_triple()
    module.data_layout = str(machine.target_data)
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=SPEED)
    options.loop_unrolling = options.loop_interleaving = False
    options.loop_vectorization = options.slp_vectorization = False
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    every = (*module.functions, *module.global_variables)
    needs = sorted(one.name for one in every if one.is_declaration and one.name[:5] != "llvm.")
    return machine.emit_object(module), needs
