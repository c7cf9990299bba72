import Crypto
import Foundation
import Simulation
import Subscriptions
import Synchronization

/// A notification to send, with the digest that the log should store.
struct Parcel: Sendable {
    let body: [UInt8]
    let environment: Subscriptions.Environment
    let isSigned: Bool
    /// SHA-256 of the body without its secret, computed independently of the code under test.
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

/// The stream and position of an event.
struct Place: Sendable, Hashable {
    let environment: Subscriptions.Environment
    let position: Int64
}

/// The sender's record of what was sent and what was acknowledged with 200.
final class SentLedger: Sendable {
    struct Acknowledgement: Sendable, Hashable {
        let place: Place
        /// Stored as a conflict with an earlier event of the same `notificationUUID`.
        let isConflict: Bool
    }

    struct Content: Sendable {
        /// The number of posts.
        var sent = 0
        /// The stored digests of authentic bodies.
        var authentic: Set<Data> = []
        /// Those of signed bodies, each of which is one event however often it is sent.
        var signed: Set<Data> = []
        /// A repeat in version 1 is a new event if another event about its subscription is in between.
        var acknowledged: [Data: Set<Acknowledgement>] = [:]
        /// The number of answers by kind of body and status.
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
            if parcel.isSigned { state.signed.insert(parcel.storedDigest) }
        }
    }

    func count(_ kind: String, _ answer: StormClient.Answer?) {
        let label = answer.map { "\($0.status)\($0.reason.map { " \($0)" } ?? "")" } ?? "no answer"
        state.withLock { $0.answers["\(kind): \(label)", default: 0] += 1 }
        if let answer, answer.text.contains(Canary.mark) {
            report.problem("an answer to \(kind) contains a canary: \(answer.text)")
        }
    }

    func acknowledge(_ parcel: Parcel, _ answer: StormClient.Answer) {
        guard let position = answer.position else {
            report.problem("200 without a position: \(answer.text)")
            return
        }
        let place = Place(environment: parcel.environment, position: position)
        let new = Acknowledgement(place: place, isConflict: answer.isConflict)
        let all = state.withLock { state in
            state.acknowledged[parcel.storedDigest, default: []].insert(new)
            return state.acknowledged[parcel.storedDigest] ?? []
        }
        if parcel.isSigned, all.count > 1 { report.problem("a repeat of a signed body has another place: \(all)") }
    }
}
