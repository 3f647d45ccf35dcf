"""The same memory in a program without an event loop."""

from factmem import BlockingMemory, Concept, Memory, SingleFact

PORT = Concept.single("port", "The port that the service listens on", int)

with BlockingMemory(Memory("memory:", concepts=[PORT])) as memory:
    memory.save(SingleFact(PORT, 8080), scope="/feature/gateway")
    memory.remember("The gateway may only be restarted on Sundays.", scope="/feature/gateway")

    port = memory.load(PORT, scope="/feature/gateway")
    print("port:", port and port.value)
    for match in memory.recall("When can we restart the gateway?", limit=2):
        print(f"{match.score:.2f}  {match.record.value}")
    print("records:", memory.admin.info().records)
