import EventLog
import Foundation
import TestSupport
import Testing

@Suite("Output and exit statuses of commands")
struct CommandTests {
    private static let fixtures = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("AppStoreTests/Fixtures").path
    private static let sample = fixtures + "/seed000-did-change-renewal-status.json"

    @Test("inspect prints one JSON object per line and reports a file that cannot be read")
    func inspect() throws {
        let verbatim = Self.fixtures + "/seed000-did-change-renewal-status.verbatim.json"

        let result = try ServerProcess.run(["inspect", Self.sample, "/nowhere.json", verbatim])

        #expect(result.status == 65)
        #expect(result.error == "/nowhere.json: cannot read file\n")
        let lines = result.output.split(separator: "\n")
        #expect(lines.count == 2)
        let first = try #require(
            try JSONSerialization.jsonObject(with: Data(lines[0].utf8)) as? [String: Any])
        #expect(first["file"] as? String == Self.sample)
        #expect(first["source"] as? String == "apple-v1")
        #expect(first["environment"] as? String == "sandbox")
        #expect(first["app"] as? String == "com.example.magazine")
        #expect(first["type"] as? String == "DID_CHANGE_RENEWAL_STATUS")
        #expect(first["subtype"] == nil)
        #expect((first["dedupeKey"] as? String)?.count == 64)
        #expect(first["occurredAt"] as? String == "2019-11-08T08:13:55.000Z")
        #expect((first["transactions"] as? [Any])?.count == 1)
        #expect((first["renewals"] as? [Any])?.count == 1)
        #expect((first["defects"] as? [Any])?.isEmpty == true)
        #expect(!result.output.contains(V1Body.secret))
    }

    @Test("inspect reads standard input for -")
    func standardInput() throws {
        let result = try ServerProcess.run(
            ["inspect", "-"], input: try Data(contentsOf: URL(fileURLWithPath: Self.sample)))

        #expect(result.status == 0)
        #expect(result.output.hasPrefix("{\"file\":\"-\",\"verification\":{\"verdict\":\"not checked\""))
    }

    @Test("inspect prints an answer of verifyReceipt with its status and its facts")
    func receipt() throws {
        let result = try ServerProcess.run(["inspect", Self.fixtures + "/seed001-verify-receipt.json"])

        #expect(result.status == 0)
        let line = try #require(
            try JSONSerialization.jsonObject(with: Data(result.output.utf8)) as? [String: Any])
        #expect((line["verification"] as? [String: Any])?["verdict"] as? String == "not checked")
        #expect((line["answer"] as? [String: Any])?["status"] as? Int == 0)
        #expect((line["answer"] as? [String: Any])?["meaning"] as? String == "the receipt is valid")
        #expect(line["source"] as? String == "apple-receipt")
        #expect(line["kind"] as? String == "receipt")
        #expect(line["environment"] as? String == "sandbox")
        #expect(line["app"] as? String == "jp.example.app")
        #expect(line["occurredAt"] as? String == "2018-12-06T13:50:40.654Z")
        #expect((line["transactions"] as? [Any])?.count == 2)
    }

    @Test("fold uses an answer of verifyReceipt, and rejects one that confirms no receipt")
    func foldedReceipt() throws {
        let sample = Self.fixtures + "/seed001-verify-receipt.json"
        let folded = try ServerProcess.run(["fold", "--at", "2018-12-04T08:13:49Z", sample])
        let refused = try ServerProcess.run(["fold", "-"], input: Data("{\"status\":21003}".utf8))

        #expect(folded.status == 0)
        #expect(folded.output.contains("\"status\":\"active\""))
        #expect(folded.output.contains("\"accessUntil\":\"2018-12-04T08:13:50.000Z\""))
        #expect(refused.status == 65)
        #expect(
            refused.error
                == "-: the App Store does not confirm the receipt, status 21003: the receipt could not be authenticated\n"
        )
    }

    @Test("inspect and fold read signed data of a device in the form in which it is stored")
    func device() throws {
        let body = Data("{\"signedTransaction\":\"\(DeviceText.transaction())\"}".utf8)

        let untrusted = try ServerProcess.run(["inspect", "-"], input: body)
        let unverified = try ServerProcess.run(["inspect", "--no-verify", "-"], input: body)
        let folded = try ServerProcess.run(["fold", "--at", "2019-11-08T08:14:00Z", "-"], input: body)

        #expect(untrusted.status == 65)
        #expect(
            untrusted.error == "-: signedTransaction has certificates that do not lead to a trusted root\n")
        #expect(unverified.status == 0, "\(unverified.error)")
        #expect(unverified.output.contains("\"source\":\"apple-device\""))
        #expect(folded.status == 0, "\(folded.error)")
        #expect(folded.output.contains("\"status\":\"active\""))
    }

    @Test("inspect reports a malformed signed notification as such")
    func signed() throws {
        let result = try ServerProcess.run(["inspect", "-"], input: Data("{\"signedPayload\":\"a.b.c\"}".utf8))

        #expect(result.status == 65)
        #expect(result.error == "-: signedPayload has a payload or signature that is not base64url without padding\n")
    }

    struct Misuse: Sendable, CustomTestStringConvertible {
        let arguments: [String]
        var environment: [String: String] = [:]
        let status: Int32
        let says: String

        var testDescription: String { says }
    }

    static let misuses = [
        Misuse(arguments: ["inspect"], status: 64, says: "Error: expected files, or --position."),
        Misuse(arguments: ["srve"], status: 64, says: "Unexpected argument 'srve'"),
        Misuse(
            arguments: ["serve", "--public-port", "http"], status: 78,
            says: "subledger: public port \"http\" is not a number from 0 to 65535\n"),
        Misuse(
            arguments: ["serve", "--log-level", "loud"], status: 78,
            says: "subledger: unknown log level \"loud\": expected trace, debug, info, notice, warning or error\n"),
        Misuse(
            arguments: ["serve", "--apps-file", "/nowhere.json"], status: 78,
            says: "subledger: cannot read apps file /nowhere.json\n"),
        Misuse(
            arguments: ["serve"], environment: ["SUBLEDGER_APP_SHARED_SECRET": "hush"], status: 78,
            says: "subledger: SUBLEDGER_APP_SHARED_SECRET is set without SUBLEDGER_APP_BUNDLE_ID\n"),
        Misuse(
            arguments: ["serve"],
            environment: ["SUBLEDGER_APP_SHARED_SECRET": "hush", "SUBLEDGER_APP_BUNDLE_ID": "com.example.app"],
            status: 78,
            says: "SUBLEDGER_APP_SHARED_SECRET, app com.example.app: a shared secret is shorter than 16 bytes: "),
        Misuse(
            arguments: ["serve"], environment: ["SUBLEDGER_VERIFY_RECEIPT_URL": "http://hush.example/verifyReceipt"],
            status: 78,
            says: "subledger: SUBLEDGER_VERIFY_RECEIPT_URL: expected an https URL, or an http URL of this machine\n"),
        Misuse(
            arguments: ["serve"],
            environment: ["SUBLEDGER_VERIFY_RECEIPT_SANDBOX_URL": "https://me:hush@store.example"], status: 78,
            says: "subledger: SUBLEDGER_VERIFY_RECEIPT_SANDBOX_URL: expected an https URL, or an http URL "),
        Misuse(
            arguments: ["migrate", "--database-url", "nonsense"], status: 78,
            says: "subledger: the database URL is not of the form postgres://user:password@host:port/database\n"),
        Misuse(
            arguments: ["migrate", "--database-url", "postgres://canary:hush@127.0.0.1:1/none"], status: 69,
            says: "subledger: database: "),
    ]

    @Test("invalid arguments and settings are reported in one line with their exit status", arguments: misuses)
    func misuse(_ misuse: Misuse) throws {
        let result = try ServerProcess.run(misuse.arguments, environment: misuse.environment)

        #expect(result.status == misuse.status)
        #expect(result.error.contains(misuse.says), "\(result.error)")
        #expect(!result.error.contains("hush"))
        #expect(result.output.isEmpty)
    }

    @Test("an unknown host name ends the server with one line")
    func unknownHost() throws {
        let folder = TestFolder.path("host")
        defer { try? FileManager.default.removeItem(atPath: folder) }

        let result = try ServerProcess.run([
            "serve", "--public-host", "nosuch.invalid", "--private-port", "0", "--data-folder", folder,
        ])

        #expect(result.status == 69)
        #expect(
            result.error.contains("\nsubledger: cannot listen on nosuch.invalid:8080: unknown host name\n"),
            "\(result.error)")
    }

    static let appsFiles = [
        Misuse(
            arguments: ["[{\"bundleId\":\"x\",\"sharedSecret\":\"hush\"}]"], status: 78,
            says: "unknown setting \"sharedSecret\"\n"),
        Misuse(
            arguments: ["[{\"bundleId\":\"x\",\"environments\":[\"Moon\"]}]"], status: 78,
            says: "app x: unknown environment \"Moon\": expected Production, Sandbox, Xcode or LocalTesting\n"),
        Misuse(
            arguments: ["[{\"bundleId\":\"x\",\"sharedSecrets\":[\"hush\"],\"products\":{}}]"], status: 78,
            says: """
                products are configured in the database: remove "products" and use `subledger product import`

                """),
        Misuse(
            arguments: ["[{\"bundleId\":\"x\",\"sharedSecrets\":[\"hushhushhushhus\"]}]"], status: 78,
            says: "app x: a shared secret is shorter than 16 bytes: "),
        Misuse(
            arguments: ["[{\"bundleId\":\"x\",\"ownership\":\"everybody\"}]"], status: 78,
            says: "app x: unknown ownership \"everybody\": expected latest-buyer, first-buyer or shared\n"),
        Misuse(
            arguments: ["[{\"bundleId\":\"x\",\"receipts\":{\"callsPerMinute\":0}}]"], status: 78,
            says: "app x: receipts.callsPerMinute 0: expected a number from 1 to 60000\n"),
        Misuse(
            arguments: ["[{\"bundleId\":\"x\",\"receipts\":{\"concurrency\":257}}]"], status: 78,
            says: "app x: receipts.concurrency 257: expected a number from 1 to 256\n"),
        Misuse(
            arguments: ["[{\"bundleId\":\"x\",\"maxStoreAccountsPerToken\":0}]"], status: 78,
            says: "app x: maxStoreAccountsPerToken 0: expected a number from 1 to 1000\n"),
        Misuse(
            arguments: ["[{\"bundleId\":\"x\",\"receipts\":{\"callsPerSecond\":1}}]"], status: 78,
            says: "unknown setting \"receipts.callsPerSecond\"\n"),
        Misuse(
            arguments: ["[{\"bundleId\":\"x\",\"receipts\":300}]"], status: 78, says: "is not a JSON array of"),
        Misuse(
            arguments: ["[{\"bundleId\":\"x\",\"checkLead\":\"P2D\"}]"], status: 78,
            says: "app x: unknown checkLead \"P2D\": expected hours and minutes of at most 24 hours, such as PT6H\n"),
        Misuse(
            arguments: ["[{\"bundleId\":\"x\",\"serverAPI\":{\"key\":\"hush\"}}]"], status: 78,
            says: "unknown setting \"serverAPI.key\"\n"),
        Misuse(
            arguments: ["[{\"bundleId\":\"x\",\"serverAPI\":{\"keyId\":\"hush\"}}]"], status: 78,
            says: "is not a JSON array of"),
        Misuse(
            arguments: [
                "[{\"bundleId\":\"x\",\"serverAPI\":{\"issuerId\":\"i\",\"keyId\":\"k\",\"keyFile\":\"nosuch.p8\"}}]"
            ], status: 78, says: "/nosuch.p8\n"),
        Misuse(arguments: ["{}"], status: 78, says: "is not a JSON array of"),
        Misuse(
            arguments: [#"[{"packageName":"x"}]"#], status: 78,
            says: #"app x: push is missing: expected {"audience": …, "email": …}"# + "\n"),
        Misuse(
            arguments: [#"[{"packageName":"","push":{"authentication":"none"}}]"#], status: 78,
            says: "has an app without a readable packageName\n"),
        Misuse(
            arguments: [#"[{"packageName":"x","push":{"audience":"a"}}]"#], status: 78,
            says: #"app x: push needs audience and email, or "authentication": "none""# + "\n"),
        Misuse(
            arguments: [#"[{"packageName":"x","push":{"authentication":"basic","audience":"a"}}]"#], status: 78,
            says: "unknown push.authentication"),
        Misuse(
            arguments: [#"[{"packageName":"x","push":{"authentication":"none","audience":"hush"}}]"#], status: 78,
            says: "and an audience or an email: remove one\n"),
        Misuse(
            arguments: [#"[{"packageName":"x","push":{"authentication":"none"},"sharedSecrets":["hush"]}]"#],
            status: 78, says: "app x: unknown setting \"sharedSecrets\"\n"),
        Misuse(
            arguments: [#"[{"packageName":"x","push":{"authentication":"none","token":"hush"}}]"#], status: 78,
            says: "app x: unknown setting \"push.token\"\n"),
        Misuse(
            arguments: [#"[{"packageName":"x","push":{"authentication":"none"},"serviceAccount":"nosuch.json"}]"#],
            status: 78, says: "/nosuch.json\n"),
        Misuse(
            arguments: [
                #"[{"packageName":"x","push":{"authentication":"none"},"serviceAccount":"a","refreshToken":"b"}]"#
            ], status: 78, says: "app x: serviceAccount and refreshToken: expected one of them\n"),
        Misuse(
            arguments: [#"[{"packageName":"x","push":{"authentication":"none"},"licenseKey":"hush"}]"#], status: 78,
            says: "app x: licenseKey is not a license key of the Play Console"),
        Misuse(
            arguments: [#"[{"packageName":"x","push":{"authentication":"none"},"acknowledge":"hush"}]"#], status: 78,
            says: "app x: a setting has another type than expected\n"),
        Misuse(
            arguments: [
                #"[{"packageName":"x","push":{"authentication":"none"}},{"packageName":"x","push":{"authentication":"none"}}]"#
            ], status: 78, says: "app x is configured twice\n"),
        Misuse(
            arguments: [joining("x", ("x", "x"))], status: 78,
            says:
                "app x: joinedWith \"x\" is the app itself: apps with the same name in both stores are one without it\n"
        ),
        Misuse(
            arguments: [joining("a", ("x", "b"))], status: 78,
            says: "app x: joinedWith \"b\" is not a configured app: expected the bundle id of an app of the App Store\n"
        ),
        Misuse(
            arguments: [joining("a", ("x", "y"), ("y", nil))], status: 78,
            says:
                "app x: joinedWith \"y\" is an app of Google Play: expected the bundle id of an app of the App Store\n"),
        Misuse(
            arguments: [joining("a", ("x", "a"), ("y", "a"))], status: 78,
            says: "app y: joinedWith \"a\" is joined with x already: expected at most one app\n"),
        Misuse(
            arguments: [joining("a", ("x", "a"), ("a", nil))], status: 78,
            says: "app x: joinedWith \"a\": a is an app of both stores already: expected apps of one store each\n"),
        Misuse(
            arguments: [#"[{"bundleId":"a","joinedWith":"hush"}]"#], status: 78,
            says: "unknown setting \"joinedWith\"\n"),
    ]

    /// An apps file with an app of the App Store, and apps of Google Play that are joined with others.
    private static func joining(_ bundleId: String, _ apps: (String, String?)...) -> String {
        let google = apps.map { name, other in
            let joined = other.map { ",\"joinedWith\":\"\($0)\"" } ?? ""
            return "{\"packageName\":\"\(name)\",\"push\":{\"authentication\":\"none\"}\(joined)}"
        }
        return "[{\"bundleId\":\"\(bundleId)\"},\(google.joined(separator: ","))]"
    }

    @Test("an invalid apps file is reported before the server starts", arguments: appsFiles)
    func appsFile(_ misuse: Misuse) throws {
        let file = TestFolder.path("apps") + ".json"
        try Data(misuse.arguments[0].utf8).write(to: URL(fileURLWithPath: file))
        defer { try? FileManager.default.removeItem(atPath: file) }

        let result = try ServerProcess.run(["serve", "--apps-file", file])

        #expect(result.status == misuse.status)
        #expect(result.error.contains(misuse.says), "\(result.error)")
        #expect(!result.error.contains("hush"))
    }

    @Test("migrate applies the schema once and then reports that it is up to date")
    func migrate() throws {
        let folder = TestFolder.path("migrate")
        defer { try? FileManager.default.removeItem(atPath: folder) }

        let first = try ServerProcess.run(["migrate", "--data-folder", folder])
        let second = try ServerProcess.run(["migrate", "--data-folder", folder])

        #expect(first.output == "schema version \(Schema.version) applied\n", "\(first.error)")
        #expect(second.output == "schema is up to date at version \(Schema.version)\n", "\(second.error)")
        #expect(first.status == 0 && second.status == 0)
    }
}
