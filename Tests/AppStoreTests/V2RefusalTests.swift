import AppStore
import Simulation
import Subscriptions
import Testing

@Suite("Refusals")
struct V2RefusalTests {
    private static let others: [Refusal] = [
        .undecodable(.notAnObject), .undecodable(.notANotification), .secretMissing, .secretWrong(app: "a"),
        .appMissing, .mismatch(.renewal), .appleIdWrong(app: "a"), .environmentRefused(app: "a"), .appUnknown,
        .appAmbiguous,
    ]

    @Test("each refusal has a different label from a closed list")
    func labels() {
        let labels =
            Self.others.map(\.label)
            + VerificationFailure.allCases.map { Refusal.unverified($0, .notification).label }
            + MalformedJWS.allCases.map { Refusal.undecodable(.malformed($0, .notification)).label } + ["not_json"]

        #expect(Set(labels).count == labels.count)
        #expect(labels.allSatisfy { $0.wholeMatch(of: /[a-z0-9_]+/) != nil })
    }

    @Test("a label does not depend on the app or the part")
    func labelsWithoutContent() {
        #expect(Refusal.appleIdWrong(app: "a").label == Refusal.appleIdWrong(app: "b").label)
        for part in V2Notification.Part.allCases {
            #expect(Refusal.mismatch(part).label == Refusal.mismatch(.notification).label)
            #expect(
                Refusal.unverified(.expired, part).label == Refusal.unverified(.expired, .notification).label)
        }
    }

    @Test("descriptions differ, name the part and fit on one line")
    func descriptions() {
        let failures = VerificationFailure.allCases.map { Refusal.unverified($0, .transaction) }
        let problems = MalformedJWS.allCases.map { Refusal.undecodable(.malformed($0, .transaction)) }
        let all = (Self.others + failures + problems).map(\.description)

        // A missing and a wrong secret have the same text.
        #expect(Set(all).count == all.count - 1)
        #expect(Refusal.secretMissing.description == Refusal.secretWrong(app: "a").description)
        #expect(all.allSatisfy { !$0.isEmpty && !$0.contains("\n") })
        #expect((failures + problems).allSatisfy { $0.description.contains("data.signedTransactionInfo") })
    }

    @Test("a description quotes nothing from the body or the configuration", arguments: WrongText.all)
    func quotesNothing(text: WrongText) async throws {
        let refusal = try #require(await V2Receiver().refusal(text.body))

        for secret in [testBundle, String(testAppleId), "2024", "MII", "HS256", "RS256", "ES384"] {
            #expect(!refusal.description.contains(secret))
        }
    }

    @Test("a description does not reveal the configured apps")
    func quotesNoApp() async throws {
        let body = V2Body("DID_RENEW", at: "2024-06-01", v2Row("2", "2024-06-01", "2024-07-01"))
        let sent = [
            body.changing { $0.payload["data", "bundleId"] = "com.example.other" },
            body.changing { $0.payload["data", "appAppleId"] = 987_654_321 },
            body.changing { $0.transaction?["bundleId"] = "com.example.other" },
            V2Body("TEST", at: "2024-06-01", environment: "Xcode"),
        ]

        for body in sent {
            let refusal = try #require(await V2Receiver().refusal(body.signed()))
            for word in ["com.example", "987654321", String(testAppleId), "Xcode"] {
                #expect(!refusal.description.contains(word), "\(refusal)")
            }
        }
    }
}
