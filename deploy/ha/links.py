"""TCP links that can be cut, as the network between machines that all run on this one."""

import asyncio
import threading


class Link:
    """Forwards connections from one port to another. While it is cut, connections stay open and nothing passes, as when
    the network between two machines is lost."""

    def __init__(self, network, listen, target):
        self.network, self.listen, self.target = network, listen, target
        self.passing = None

    async def start(self):
        self.passing = asyncio.Event()
        self.passing.set()
        await asyncio.start_server(self._accept, "127.0.0.1", self.listen)

    async def _accept(self, reader, writer):
        await self.passing.wait()
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))

    async def _pump(self, reader, writer):
        try:
            while data := await reader.read(1 << 16):
                await self.passing.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        await self.passing.wait()
        writer.close()


class Network:
    """All links, on a thread of their own."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def link(self, listen, target):
        link = Link(self, listen, target)
        asyncio.run_coroutine_threadsafe(link.start(), self.loop).result(10)
        return link

    def cut(self, links):
        for link in links:
            self.loop.call_soon_threadsafe(link.passing.clear)

    def heal(self, links):
        for link in links:
            self.loop.call_soon_threadsafe(link.passing.set)
