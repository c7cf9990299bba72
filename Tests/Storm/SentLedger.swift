import Crypto
import Foundation
import StoreSimulator
import Subscriptions
import Synchronization

/// A notification on its way, with what the log should hold of it.
struct Parcel: Sendable {
    let body: [UInt8]
    let environment: Subscriptions.Environment
    let isSigned: Bool
    /// SHA-256 of the body without its secret, worked out here and not by the code under test.
    let storedDigest: Data

    init(_ delivery: SimulatedDelivery, _ environment: Subscriptions.Environment) {
        body = delivery.body()
        self.environment = environment
        isSigned = !delivery.isVersion1
        storedDigest = Data(SHA256.hash(data: Self.withoutSecret(body, isSigned: isSigned)))
    }

    private static let secret = Data("\"password\":\"\(Canary.secret)\"".utf8)

    private static func withoutSecret(_ body: [UInt8], isSigned: Bool) -> Data {
        var data = Data(body)
        guard !isSigned, let range = data.range(of: secret) else { return data }
        data.replaceSubrange(range, with: Data("\"password\":\"\"".utf8))
        return data
    }
}

/// Where an answer says that a notification is.
struct Place: Sendable, Hashable {
    let environment: Subscriptions.Environment
    let position: Int64
}

/// The sender's own book: what was sent, and what was acknowledged with 200.
final class SentLedger: Sendable {
    struct Acknowledgement: Sendable {
        let place: Place
        /// Taken, and kept beside the event that had its notificationUUID first.
        let isConflict: Bool
    }

    struct Content: Sendable {
        /// How often something was posted.
        var sent = 0
        /// Authentic bodies, by what is to be stored of them.
        var authentic: Set<Data> = []
        var acknowledged: [Data: Acknowledgement] = [:]
        /// Answers by kind of body and status.
        var answers: [String: Int] = [:]
    }

    private let state = Mutex(Content())
    private let report: StormReport

    init(_ report: StormReport) {
        self.report = report
    }

    var content: Content { state.withLock { $0 } }
    var acknowledgedCount: Int { state.withLock { $0.acknowledged.count } }

    func willSend(_ parcel: Parcel) {
        state.withLock { state in
            state.sent += 1
            state.authentic.insert(parcel.storedDigest)
        }
    }

    func note(_ kind: String, _ answer: StormClient.Answer?) {
        let label = answer.map { "\($0.status)\($0.reason.map { " \($0)" } ?? "")" } ?? "no answer"
        state.withLock { $0.answers["\(kind): \(label)", default: 0] += 1 }
        if let answer, answer.text.contains(Canary.mark) {
            report.problem("an answer to \(kind) shows a canary: \(answer.text)")
        }
    }

    func acknowledge(_ parcel: Parcel, _ answer: StormClient.Answer) {
        guard let position = answer.position else {
            report.problem("a 200 without a position: \(answer.text)")
            return
        }
        let place = Place(environment: parcel.environment, position: position)
        let new = Acknowledgement(place: place, isConflict: answer.isConflict)
        let old = state.withLock { state in
            state.acknowledged.updateValue(new, forKey: parcel.storedDigest)
        }
        if let old, old.place != place || old.isConflict != new.isConflict {
            report.problem("a repeat was answered \(place), conflict \(new.isConflict), and before that \(old)")
        }
    }
}
