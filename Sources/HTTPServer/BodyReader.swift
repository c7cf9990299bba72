import Hummingbird
import NIOCore
import Synchronization

/// Collects request bodies within bounds: of one body, of the time it takes, and of all large ones together.
package final class BodyReader: Sendable {
    package enum Failure: Error {
        case tooLarge
        case tooSlow
        /// Too many bytes are held for other large bodies.
        case noRoom
        /// The server ends, and the body was not there in time.
        case ending
        /// The sender went away.
        case incomplete
    }

    /// Bytes of bodies beyond what each of them may take without asking.
    private let held = Mutex(0)
    private let deadlines = BodyDeadlines()

    package init() {}

    /// Collects the body and passes it on; its bytes count as held until that returns.
    package func withBody<Value>(of request: Request, _ use: ([UInt8]) async throws -> Value) async throws -> Value {
        let announced = request.headers[.contentLength].flatMap { Int($0) } ?? 0
        guard announced <= Limits.bodyBytesMax else { throw Failure.tooLarge }
        // Somebody may announce what never comes, so only what is free is taken before it is there.
        let expected = max(0, min(announced, Limits.bodyBytesFree))
        let room = Room(reader: self)
        defer { room.giveBack() }
        let body = try await withThrowingTaskGroup(of: [UInt8].self) { group in
            group.addTask { try await Self.collect(request.body, expected, room) }
            // Parts may come slowly or not at all, so the time is watched beside them. Who has not sent everything is
            // not waiting for a commit, and must not keep a server that ends.
            group.addTask { [deadlines] in throw try await deadlines.end() }
            defer { group.cancelAll() }
            return try await group.next() ?? []
        }
        return try await use(body)
    }

    private static func collect(_ parts: RequestBody, _ expected: Int, _ room: Room) async throws -> [UInt8] {
        var body: [UInt8] = []
        body.reserveCapacity(expected)
        do {
            for try await part in parts {
                let count = body.count + part.readableBytes
                guard count <= Limits.bodyBytesMax else { throw Failure.tooLarge }
                guard room.grow(to: count) else { throw Failure.noRoom }
                body.append(contentsOf: part.readableBytesView)
            }
        } catch let failure as Failure {
            throw failure
        } catch {
            throw Failure.incomplete
        }
        return body
    }

    /// What one body takes of the common room.
    private final class Room: Sendable {
        private let reader: BodyReader
        private let taken = Mutex(0)

        init(reader: BodyReader) {
            self.reader = reader
        }

        /// False if there is not enough left. The first bytes of a body need none, so that a few senders of large
        /// bodies cannot keep out everybody else.
        func grow(to bodyBytes: Int) -> Bool {
            taken.withLock { taken in
                let more = max(bodyBytes - Limits.bodyBytesFree, 0) - taken
                let hasRoom = reader.held.withLock { held in
                    guard held + more <= Limits.bodiesBytesMax else { return false }
                    held += more
                    return true
                }
                if hasRoom { taken += more }
                return hasRoom
            }
        }

        func giveBack() {
            taken.withLock { taken in
                reader.held.withLock { $0 -= taken }
                taken = 0
            }
        }
    }
}
