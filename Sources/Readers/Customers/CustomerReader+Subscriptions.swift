import Encoding
import EventLog
import Postgres
import Subscriptions

extension CustomerReader {
    /// The entitlements that subscriptions of an app grant, to any owner.
    package func entitlements(
        of subscriptions: [Subscription], app: String, at instant: Instant
    ) async throws(ReadError) -> [Entitlement] {
        do throws(PostgresError) {
            return Entitlement.all(of: subscriptions, entitlements: try await mapping(app), at: instant)
        } catch {
            throw ReadError(error)
        }
    }
}
