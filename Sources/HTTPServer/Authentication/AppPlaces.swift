import HTTPTypes
import Synchronization

/// Bounds how many requests of apps are answered at a time.
///
/// A request that waits for the database keeps its connection: the listener closes none of these. Without the bounds, apps could
/// keep all connections of the listener, and one address or user those of all others.
final class AppPlaces: Sendable {
    private struct State {
        var all = 0
        var byAddress: [PeerAddress: Int] = [:]
        var byUser: [AppUser: Int] = [:]
    }

    private let state = Mutex(State())
    private let perAddress: Int

    /// - Parameter connectionsPerAddress: The number of connections that one address may have on the listener.
    init(connectionsPerAddress: Int) {
        perAddress = max(1, connectionsPerAddress / Limits.appPlacesDivisor)
    }

    /// Does the work for a request of an address.
    ///
    /// - Throws: ``Problem`` with status 429 if the address has too many requests under way, 503 if all have.
    func hold<Value>(_ address: PeerAddress, _ work: () async throws -> Value) async throws -> Value {
        let problem = state.withLock { state -> Problem? in
            if state.byAddress[address, default: 0] >= perAddress {
                return AppGate.tooMany("too many requests of this address at a time: at most \(perAddress)")
            }
            if state.all >= Limits.appRequestsAtOnceMax {
                return AppGate.refusal(
                    Problem(.serviceUnavailable, "too many requests of apps are being answered"), "too_many_at_once")
            }
            state.all += 1
            state.byAddress[address, default: 0] += 1
            return nil
        }
        if let problem { throw problem }
        defer {
            state.withLock { state in
                state.all -= 1
                Self.release(address, in: &state.byAddress)
            }
        }
        return try await work()
    }

    /// Does the work for a request of a user, which has a place as one of its address.
    ///
    /// - Throws: ``Problem`` with status 429.
    func hold<Value>(_ user: AppUser, _ work: () async throws -> Value) async throws -> Value {
        let isAdmitted = state.withLock { state in
            guard state.byUser[user, default: 0] < Limits.userRequestsAtOnceMax else { return false }
            state.byUser[user, default: 0] += 1
            return true
        }
        guard isAdmitted else {
            throw AppGate.tooMany(
                "too many requests of this customer at a time: at most \(Limits.userRequestsAtOnceMax)")
        }
        defer { state.withLock { Self.release(user, in: &$0.byUser) } }
        return try await work()
    }

    private static func release<Key: Hashable>(_ key: Key, in places: inout [Key: Int]) {
        let left = (places[key] ?? 1) - 1
        places[key] = left == 0 ? nil : left
    }
}
