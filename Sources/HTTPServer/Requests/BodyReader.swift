import HTTPTypes
import Hummingbird
import NIOCore
import Synchronization

/// Collects request bodies within two limits: the size of one body, and the memory of all large ones together.
/// ``ConnectionHandler`` limits the time that a body may take.
package final class BodyReader: Sendable {
    package enum Failure: Error {
        case tooLarge
        case tooSlow
        /// Other large bodies use too many bytes, or another body needed the room of this one.
        case noRoom
        /// The server is shutting down, and the body had not arrived.
        case ending
        /// The sender closed the connection.
        case incomplete

        /// The reason in metrics for ``noRoom``.
        static let noRoomLabel = "bodies_full"
    }

    private struct State {
        /// The bytes of all bodies beyond the first ``Limits/bodyBytesFree`` of each.
        var held = 0
        /// The part of ``held`` that belongs to displaced bodies which are not freed yet.
        var leaving = 0
        /// The bodies that hold such bytes and are still arriving, oldest first.
        var arriving: [Room] = []
    }

    private let state = Mutex(State())

    package init() {}

    /// Collects the body and passes it to `use`; its bytes count as held until `use` returns.
    package func withBody<Value>(
        of request: Request, bytesMax: Int = Limits.bodyBytesMax, _ use: ([UInt8]) async throws -> Value
    ) async throws -> Value {
        let announced = request.headers[.contentLength].flatMap { Int($0) } ?? 0
        guard announced <= bytesMax else { throw Failure.tooLarge }
        let channel = CurrentConnection.channel
        if request.headers[.expect] != nil {
            channel?.triggerUserOutboundEvent(ConnectionHandler.BodyWanted(), promise: nil)
        }
        let room = Room(channel: channel)
        defer { release(room) }
        // A sender may announce bytes that never arrive, so no more than the free bytes are reserved in advance.
        let body = try await collect(
            request.body, max(0, min(announced, Limits.bodyBytesFree)), bytesMax: bytesMax, room)
        hasArrived(room)
        return try await use(body)
    }

    private func collect(
        _ parts: RequestBody, _ expected: Int, bytesMax: Int, _ room: Room
    ) async throws -> [UInt8] {
        var body: [UInt8] = []
        body.reserveCapacity(expected)
        do {
            for try await part in parts {
                let count = body.count + part.readableBytes
                guard count <= bytesMax else { throw Failure.tooLarge }
                guard count <= Limits.bodyBytesFree || grow(room, to: count) else { throw Failure.noRoom }
                body.append(contentsOf: part.readableBytesView)
            }
        } catch let failure as Failure {
            throw failure
        } catch {
            throw Failure.incomplete
        }
        return body
    }
}

// MARK: - Shared room

extension BodyReader {
    /// The bytes that one body uses of the shared room.
    ///
    /// Unchecked: the mutex of the reader's state guards all members but `channel`, which never changes and is `Sendable`.
    private final class Room: @unchecked Sendable {
        /// Nil outside of a listener.
        let channel: (any Channel)?
        var taken = 0
        var isDisplaced = false

        init(channel: (any Channel)?) {
            self.channel = channel
        }
    }

    /// Reserves room for a body; returns false if there is not enough. The first ``Limits/bodyBytesFree`` bytes of a
    /// body need none, so small bodies are accepted whatever room the large ones use.
    private func grow(_ room: Room, to bodyBytes: Int) -> Bool {
        let more = max(bodyBytes - Limits.bodyBytesFree, 0) - room.taken
        let (hasRoom, displaced) = state.withLock { state in
            guard !room.isDisplaced, state.held + more <= Limits.bodiesBytesMax else { return (false, [Room]()) }
            if room.taken == 0 { state.arriving.append(room) }
            state.held += more
            room.taken += more
            return (true, Self.displace(&state, for: room))
        }
        for room in displaced {
            room.channel?.triggerUserOutboundEvent(ConnectionHandler.BodyUnwanted(failure: .noRoom), promise: nil)
        }
        return hasRoom
    }

    /// Displaces bodies, starting with the one that has been arriving longest, until the rest fits.
    private static func displace(_ state: inout State, for newcomer: Room) -> [Room] {
        var displaced: [Room] = []
        while state.held - state.leaving > Limits.bodiesBytesDisplacing,
            let oldest = state.arriving.firstIndex(where: { $0 !== newcomer })
        {
            let room = state.arriving.remove(at: oldest)
            room.isDisplaced = true
            state.leaving += room.taken
            displaced.append(room)
        }
        return displaced
    }

    private func hasArrived(_ room: Room) {
        guard room.taken > 0 else { return }
        state.withLock { state in state.arriving.removeAll { $0 === room } }
    }

    private func release(_ room: Room) {
        guard room.taken > 0 else { return }
        state.withLock { state in
            state.arriving.removeAll { $0 === room }
            state.held -= room.taken
            if room.isDisplaced { state.leaving -= room.taken }
            room.taken = 0
        }
    }
}
