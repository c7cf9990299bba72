import AppStore
import Subscriptions
import Testing

@Suite("Signed notifications sent again")
struct V2DedupeTests {
    private let body = V2Body(
        "DID_RENEW", at: "2024-06-01", v2Row("2", "2024-06-01", "2024-07-01"), v2Renewal())
    private let id = "002e14d5-51f5-4503-b5a8-c3a1af68eb20"

    private func key(_ uuid: JSON?, _ change: (inout V2Body) -> Void = { _ in }) throws -> DedupeKey {
        var body = body
        body.payload["notificationUUID"] = uuid
        change(&body)
        return try body.event().dedupeKey
    }

    @Test("the key depends only on the UUID, in upper or lower case")
    func sameUUID() throws {
        let first = try key(.text(id))

        #expect(try key(.text(id.uppercased())) == first)
        #expect(try key(.text(id)) { $0.payload["signedDate"] = ms("2024-06-02") } == first)
        #expect(try key(.text(id)) { $0.payload["notificationType"] = "REFUND" } == first)
        #expect(first.bytes.count == 16)
        #expect(first.hexadecimal == id.replacing("-", with: ""))
    }

    @Test("notifications that differ only in their UUID have different keys")
    func otherUUID() throws {
        #expect(try key(.text(id)) != key("102e14d5-51f5-4503-b5a8-c3a1af68eb20"))
    }

    @Test("the UUID is returned as Apple wrote it")
    func told() throws {
        #expect(try body.changing { $0.payload["notificationUUID"] = .text(id) }.event().notificationUUID == id)
    }

    @Test(
        "the key depends on the content if the UUID is not readable",
        arguments: [nil, JSON.text(""), .text("  "), .raw("{}"), .raw("[]"), .raw("null")] as [JSON?])
    func noUUID(value: JSON?) throws {
        let first = try key(value)

        #expect(try key(value) == first)
        #expect(try key(value) { $0.payload["signedDate"] = ms("2024-06-02") } != first)
        #expect(try key(value) { $0.payload["subtype"] = "BILLING_RECOVERY" } != first)
        #expect(try key(value) { $0.transaction?["expiresDate"] = ms("2024-07-02") } != first)
    }

    @Test(
        "an id that is not a UUID still identifies the notification",
        arguments: [
            "not a UUID", "002e14d5-51f5-4503-b5a8-c3a1af68eb2", "002e14d5-51f5-4503-b5a8-c3a1af68eb20a",
            "002e14d5-51f5-4503-b5a8-c3a1af68eb2g", "------------------------------------",
        ])
    func oddId(text: String) throws {
        let first = try key(.text(text))

        #expect(try key(.text(text)) { $0.payload["signedDate"] = ms("2024-06-02") } == first)
        #expect(try key(.text(text + "1")) != first)
        #expect(try key(.text(id)) != first)
    }

    @Test(
        "a missing or unreadable UUID is a defect",
        arguments: [nil, JSON.text(""), .raw("{}")] as [JSON?])
    func defect(value: JSON?) throws {
        let event = try body.changing { $0.payload["notificationUUID"] = value }.event()

        #expect(event.defects.contains { $0.path.hasSuffix("notificationUUID") })
        #expect(event.transactions.count == 1)
    }

    @Test("the account token is returned in lower case")
    func accountToken() throws {
        let upper: JSON = "7E3FB20B-4CDB-47CC-936D-99D65F608138"
        let event = try body.changing {
            $0.transaction?["appAccountToken"] = upper
            $0.renewal?["appAccountToken"] = upper
        }.event()

        #expect(event.transactions.first?.appAccountToken == "7e3fb20b-4cdb-47cc-936d-99d65f608138")
        #expect(event.renewals.first?.appAccountToken == "7e3fb20b-4cdb-47cc-936d-99d65f608138")
    }
}
