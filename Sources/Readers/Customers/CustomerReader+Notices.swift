import EventLog
import Postgres
import Subscriptions

extension CustomerReader {
    /// What events say about a customer besides their facts: at most ``Limits/noticesMax`` of each app, and what is known
    /// by the facts of its subscriptions.
    func notices(
        of stored: StoredCustomer, _ owned: [OwnedSubscription]
    ) async throws -> [(notice: CustomerNotice, joinedApp: String?)] {
        var notices: [(notice: CustomerNotice, joinedApp: String?)] = []
        for own in owned {
            notices += own.voids.filter { void in own.intervals.contains { $0.interval.contains(void.at) } }
                .map { ($0, own.joinedApp) }
        }
        for part in stored.parts {
            let rows = try await pool.query(
                NoticeStatements.ofCustomer,
                [
                    Parameter(part.streamId), Parameter(part.customer.kind.rawValue), Parameter(part.customer.id.text),
                    Parameter(Limits.noticesMax),
                ], deadline: .now + Limits.readWaitMax)
            for row in rows {
                guard let notice = try NoticeStatements.read(row) else { continue }
                notices.append((notice, part.app == stored.app ? nil : part.app))
            }
        }
        return notices
    }
}
