"""A JAX loop that is tracked. JAX returns before the device is done: see the end of each step.

TIDEMILL_TRACK=file:out/track python examples/track/jax_loop.py
"""

import jax
import jax.numpy as jnp

from tidemill import track

STEPS, BATCH, WIDTH = 200, 128, 512


@jax.jit
def update(weights: jax.Array, batch: jax.Array) -> jax.Array:
    """One step of gradient descent."""

    def loss(weights: jax.Array) -> jax.Array:
        return jnp.mean((batch @ weights - batch) ** 2)

    return weights - 0.1 * jax.grad(loss)(weights)


def main() -> None:
    """Train; wait for the device once per step, one step late, so that it never idles."""
    key = jax.random.PRNGKey(0)
    weights = jnp.zeros((WIDTH, WIDTH))
    with track.job("jax", rank=jax.process_index(), world=jax.process_count()) as run:
        for batch in run.batches(jax.random.normal(k, (BATCH, WIDTH)) for k in keys(key)):
            with run.step(samples=BATCH, flops=6 * BATCH * WIDTH * WIDTH):
                before, weights = weights, update(weights, batch)
                jax.block_until_ready(before)


def keys(key: jax.Array) -> list[jax.Array]:
    """One for each batch."""
    return list(jax.random.split(key, STEPS))


if __name__ == "__main__":
    main()
