import AppStore
import Encoding

extension Apps {
    /// Verifies an unsigned notification.
    package func verify(_ body: [UInt8], receivedAt: Instant) throws(Refusal) -> VerifiedNotification {
        let notification: AppleNotification
        do throws(UndecodableBody) {
            notification = try AppleNotification(decoding: body)
        } catch {
            throw .undecodable(error)
        }
        guard case .v1(let unsigned) = notification else { throw .undecodable(.notANotification) }
        return try verify(unsigned, receivedAt: receivedAt)
    }
}
