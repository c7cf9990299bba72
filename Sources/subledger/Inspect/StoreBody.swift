import AppStore
import Encoding
import EventLog
import Subscriptions

/// A body of the log: a notification, an answer of verifyReceipt, signed data of a device, or a request of an operator. Not
/// verified.
enum StoreBody {
    case notification(AppleNotification)
    case answer(StoredAnswer)
    case device(SignedStatement)
    case write(StoreWrite)

    /// An answer is recognised by its `status`, and signed data of a device and requests of operators by their members,
    /// unless the body is a notification.
    ///
    /// - Throws: The problem of the body as a notification.
    init(decoding body: [UInt8]) throws(UndecodableBody) {
        do throws(UndecodableBody) {
            self = .notification(try AppleNotification(decoding: body))
        } catch {
            guard error == .notANotification else { throw error }
            if let answer = try? StoredAnswer(decoding: body) {
                self = .answer(answer)
            } else if let statement = try? SignedStatement(decoding: body) {
                self = .device(statement)
            } else if let json = try? JSONDocument(body).root, let write = try? StoreWrite(json: json) {
                self = .write(write)
            } else {
                throw error
            }
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
        case .device(let statement): return statement.event()
        case .write(let write): return write.event(environment: .unknown, app: nil, receivedAt: receivedAt)
        }
    }
}
