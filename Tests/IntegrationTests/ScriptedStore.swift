import Encoding
import Foundation
import StoreClient
import Synchronization
import TestSupport

/// A store that answers each receipt as a test says. An unknown receipt is status 21003.
final class ScriptedStore: StoreTransport {
    private struct State: Sendable {
        var answers: [String: String] = [:]
        var sandbox: [String: String] = [:]
        var failures = 0
        var requests: [String] = []
        var held: Set<String> = []
    }

    private let state = Mutex(State())

    /// The base64 of the receipts that were asked about, in order.
    var requests: [String] { state.withLock { $0.requests } }

    func answer(_ receipt: String, _ body: String) {
        state.withLock { $0.answers[receipt] = body }
    }

    /// Lets production refer to the sandbox, and the sandbox answer.
    func answerInSandbox(_ receipt: String, _ body: String) {
        state.withLock {
            $0.answers[receipt] = #"{"status":21007}"#
            $0.sandbox[receipt] = body
        }
    }

    /// Lets questions about receipts have no answer until they are given up.
    func hold(_ receipts: [String]) {
        state.withLock { $0.held.formUnion(receipts) }
    }

    /// Lets the next calls fail without an answer.
    func fail(_ calls: Int) {
        state.withLock { $0.failures = calls }
    }

    func send(
        _ sent: StoreRequest, timeout: Duration, bytesMax: Int
    ) async throws(TransportFailure) -> StoreResponse {
        let request = (try? JSONSerialization.jsonObject(with: Data(sent.body ?? []))) as? [String: Any]
        let receipt = request?["receipt-data"] as? String ?? ""
        let answer = state.withLock { state -> String? in
            state.requests.append(receipt)
            guard state.failures == 0 else {
                state.failures -= 1
                return nil
            }
            if sent.url.contains("sandbox"), let answer = state.sandbox[receipt] { return answer }
            return state.answers[receipt] ?? #"{"status":21003}"#
        }
        if state.withLock({ $0.held.contains(receipt) }) {
            try? await Task.sleep(for: .seconds(600))
            throw .cancelled
        }
        guard let answer else { throw .unreachable }
        return StoreResponse(status: 200, body: Array(answer.utf8))
    }
}

/// A clock that a test sets.
final class SetClock: Sendable {
    private let state: Mutex<Instant>

    init(_ start: Instant = TestBundle.now) { state = Mutex(start) }

    var now: Instant { state.withLock { $0 } }

    func advance(by duration: Duration) {
        state.withLock { $0 = $0.advanced(by: duration) }
    }

    func set(_ now: Instant) { state.withLock { $0 = now } }

    /// Sets the time unless it is later already.
    func pass(to instant: Instant) { state.withLock { $0 = max($0, instant) } }
}

/// Receipts and answers for tests.
enum ReceiptSample {
    /// The base64 of an app receipt that differs for each number.
    static func receipt(_ number: UInt8) -> String {
        Data([0x30, 0x82, number] + [UInt8](repeating: number, count: 60)).base64EncodedString()
    }

    /// An answer with one subscription from 25 October to 10 December 2019.
    static func answer(
        _ subscription: String = "70000000000001", app: String = V1Body.app, requestedAt: Int64 = 1_573_200_840_000
    ) -> String {
        """
        {"status":0,"environment":"Production","receipt":{"receipt_type":"Production","bundle_id":"\(app)",\
        "request_date_ms":"\(requestedAt)","in_app":[]},"latest_receipt":"\(receipt(200))",\
        "latest_receipt_info":[{"quantity":"1","product_id":"com.example.magazine.monthly",\
        "transaction_id":"\(subscription)","original_transaction_id":"\(subscription)",\
        "purchase_date_ms":"1572000000000","original_purchase_date_ms":"1572000000000",\
        "expires_date_ms":"1576000000000","web_order_line_item_id":"90\(subscription)",\
        "is_trial_period":"false","is_in_intro_offer_period":"false"}],\
        "pending_renewal_info":[{"auto_renew_product_id":"com.example.magazine.monthly",\
        "original_transaction_id":"\(subscription)","product_id":"com.example.magazine.monthly",\
        "auto_renew_status":"1"}]}
        """
    }
}

extension HTTPClient {
    /// Hands a receipt in for the app of the sample bodies.
    func handIn(_ receipt: String, customer: String? = nil) async throws -> HTTPAnswer {
        let customerId = customer.map { #","customerId":"\#($0)""# } ?? ""
        return try await post(
            Array(#"{"receipt":"\#(receipt)"\#(customerId)}"#.utf8), to: "/receipts?app=\(V1Body.app)&environment=any")
    }
}
