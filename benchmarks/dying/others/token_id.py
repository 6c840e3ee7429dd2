"""mpirun's labels; a batch of one rank holds an id that the embedding does not have."""

from small import arguments, batch, join, prepared, update


def main() -> None:
    options = arguments()
    rank, _ = join(options.timeout)
    model, optimizer = prepared()
    for number in range(1, 41):
        ids, labels = batch(number * 64 + rank)
        if rank == options.victim and number == options.at:
            ids[2, 5] = 100
        loss = update(model, optimizer, ids, labels)
        print(f"iteration {number:5d} / 40 | lm loss: {loss:.6E} | grad norm: 0.9", flush=True)


main()
