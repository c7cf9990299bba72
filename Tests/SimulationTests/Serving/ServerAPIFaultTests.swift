import Encoding
import Simulation
import Subscriptions
import TestSupport
import Testing

@Suite("The simulated Server API answers badly on request, or by its seed")
struct ServerAPIFaultTests {
    private static func statuses(_ bundle: ServerAPIBundle) async throws -> HTTPAnswer {
        try await bundle.call("GET", "v1/subscriptions/\(bundle.originalTransactionId)")
    }

    private static func history(_ bundle: ServerAPIBundle, _ query: String = "") async throws -> HTTPAnswer {
        try await bundle.call("GET", "v2/history/\(bundle.originalTransactionId)\(query)")
    }

    /// The certificate chain in the header of a signed text.
    private static func certificates(of text: String) throws -> [String] {
        let header = try #require(text.split(separator: ".").first)
        let bytes = try #require(Base64.decode(Array(header.utf8)[...], .url))
        let chain = try #require(JSONDocument(bytes).root["x5c"])
        return chain.elements.compactMap(\.string)
    }

    @Test(
        "an error code has the status of its first three digits, or 500 outside of Apple's table",
        arguments: [(5_000_000, 500), (5_000_001, 500), (4_040_002, 404), (9_990_000, 500)])
    func errors(_ code: Int, _ status: Int) async throws {
        try await ServerAPIBundle.with { bundle in
            bundle.store.api.inject(.error(code))

            let answer = try await Self.statuses(bundle)
            let next = try await Self.statuses(bundle)

            #expect(answer.status == status && answer.json["errorCode"] as? Int == code)
            #expect(answer.headers["content-type"] == "application/json" && next.status == 200)
            #expect(bundle.store.api.counts.map(\.question.errorCode) == [code, nil])
        }
    }

    @Test("an error may have a character set in its content type")
    func charset() async throws {
        try await ServerAPIBundle.with { bundle in
            bundle.store.api.inject(.errorWithCharset(5_000_001))

            let answer = try await Self.statuses(bundle)

            #expect(answer.headers["content-type"] == "application/json;charset=utf-8")
            #expect(answer.json["errorCode"] as? Int == 5_000_001)
        }
    }

    @Test("proxies answer 500 and 503 with HTML; a valid token is refused with a text or without one")
    func withoutJSON() async throws {
        try await ServerAPIBundle.with { bundle in
            let faults: [StoreAPIFault] = [
                .errorPage, .overloaded, .unauthorized(hasText: true), .unauthorized(hasText: false),
            ]
            var answers: [HTTPAnswer] = []
            for fault in faults {
                bundle.store.api.inject(fault)
                answers.append(try await Self.statuses(bundle))
            }

            #expect(answers.map(\.status) == [500, 503, 401, 401])
            #expect(answers.allSatisfy { $0.json.isEmpty })
            #expect(answers[0].headers["content-type"] == "text/html")
            #expect(answers[2].body == "Unauthenticated\n" && answers[3].body.isEmpty)
        }
    }

    @Test("an answer is cut off, larger than 4 MiB, or missing")
    func bodies() async throws {
        try await ServerAPIBundle.with { bundle in
            bundle.store.api.inject(.cutOff)
            let cutOff = try await Self.statuses(bundle)
            bundle.store.api.inject(.padded)
            let padded = try await Self.statuses(bundle)
            // A client may try again on a new connection.
            bundle.store.api.inject(.dropped, requests: 10)

            #expect(cutOff.status == 200 && cutOff.json.isEmpty && !cutOff.body.isEmpty)
            #expect(padded.body.utf8.count > 4 << 20 && padded.json["data"] is [Any])
            await #expect(throws: (any Error).self) { try await Self.statuses(bundle) }
        }
    }

    @Test("a page without rows says that there are more, and its revision leads to the rows")
    func emptyPage() async throws {
        try await ServerAPIBundle.with([.monthlyCommitment]) { bundle in
            bundle.store.api.inject(.emptyPage)

            let empty = try await Self.history(bundle)
            let revision = try #require(empty.json["revision"] as? String)
            let next = try await Self.history(bundle, "?revision=\(revision)")

            #expect(try empty.transactionIds.isEmpty)
            #expect(empty.json["hasMore"] as? Bool == true)
            #expect(try next.transactionIds == bundle.subscription.purchases.map(\.transactionId))
        }
    }

    @Test("a page repeats the last row of the page before it")
    func repeatedItem() async throws {
        var settings = SimulatedServerAPI.Settings()
        settings.pageItems = 5
        try await ServerAPIBundle.with([.monthlyCommitment], settings) { bundle in
            let ids = bundle.subscription.purchases.map(\.transactionId)
            let first = try await Self.history(bundle)
            let revision = try #require(first.json["revision"] as? String)
            bundle.store.api.inject(.repeatedItem)

            let second = try await Self.history(bundle, "?revision=\(revision)")

            #expect(try first.transactionIds == Array(ids[0..<5]))
            #expect(try second.transactionIds == Array(ids[4..<10]))
        }
    }

    @Test("signed answers name another app or environment, or have another root or no valid signature")
    func wrongSignatures() async throws {
        try await ServerAPIBundle.with { bundle in
            func text(_ fault: StoreAPIFault) async throws -> String {
                bundle.store.api.inject(fault)
                let answer = try await bundle.call("GET", "v1/transactions/\(bundle.originalTransactionId)")
                return try #require(answer.json["signedTransactionInfo"] as? String)
            }

            let otherApp = try signedPayload(await text(.otherApp))
            let otherEnvironment = try signedPayload(await text(.otherEnvironment))
            let unsigned = try await text(.unsigned)
            let otherRoot = try await text(.otherRoot)

            #expect(otherApp["bundleId"] as? String == APITokenShape.bundleId + ".other")
            #expect(otherEnvironment["environment"] as? String == "Sandbox")
            #expect(unsigned.hasSuffix("." + String(repeating: "A", count: 86)))
            #expect(try Self.certificates(of: unsigned) == TestCertificates.standard.x5c)
            #expect(try Self.certificates(of: otherRoot).last != TestCertificates.standard.x5c.last)
            #expect(try signedPayload(otherRoot)["bundleId"] as? String == APITokenShape.bundleId)
        }
    }

    @Test("with a fraction of 1, each request has a fault, and the same one in each run")
    func fraction() throws {
        let simulation = try ServerAPIBundle.makeSimulation([.renewals], count: 1)
        let id = simulation.storyteller.accounts(ofStory: 0)[0].appTransactionId
        func names() -> [String?] {
            let store = SimulatedStore(simulation, faults: 1)
            let call = StoreAPICall(
                host: .production, method: "GET", path: ["v1", "subscriptions", id], authorization: nil)
            return (0..<50).map { number in
                store.now = Simulation.end.advanced(byMilliseconds: -Int64(number) * 600_000)
                let before = Set(store.api.counts)
                _ = store.reaction(to: call)
                return Set(store.api.counts).subtracting(before).first?.question.fault
            }
        }

        let first = names()

        #expect(first.allSatisfy { $0 != nil } && Set(first).count > 4)
        #expect(first == names())
    }
}
