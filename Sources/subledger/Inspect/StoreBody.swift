import AppStore
import Encoding
import Subscriptions

/// A body that the App Store sent: a notification, or an answer of verifyReceipt. Not verified.
enum StoreBody {
    case notification(AppleNotification)
    case answer(StoredAnswer)

    /// An answer is recognised by its `status`, unless the body is a notification.
    ///
    /// - Throws: The problem of the body as a notification.
    init(decoding body: [UInt8]) throws(UndecodableBody) {
        do throws(UndecodableBody) {
            self = .notification(try AppleNotification(decoding: body))
        } catch {
            guard error == .notANotification, let answer = try? StoredAnswer(decoding: body) else { throw error }
            self = .answer(answer)
        }
    }

    /// Returns the body as a normalised event.
    ///
    /// - Throws: ``ReceiptRefusal`` if it is an answer without facts.
    func event(receivedAt: Instant) throws(ReceiptRefusal) -> Event {
        switch self {
        case .notification(let notification): return notification.event(receivedAt: receivedAt)
        case .answer(let answer):
            guard answer.isFact else { throw .status(answer.answer.status) }
            return answer.event(app: nil, environment: nil, receivedAt: receivedAt)
        }
    }
}
