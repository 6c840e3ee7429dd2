import asyncio
import contextvars

from training import train

name = contextvars.ContextVar("name", default="none")


async def job(word):
    name.set(word)
    await asyncio.sleep(0)
    return await asyncio.to_thread(lambda: word + name.get())


async def main():
    train(5, each=lambda step, loss: name.set(str(step)))
    print(await asyncio.gather(job("a"), job("b")), name.get())
    print(len(asyncio.all_tasks()))
    raise RuntimeError("in the loop")


asyncio.run(main())
