import Foundation
import Simulation
import TestSupport
import Testing

@Suite("store-simulator sends App Store notifications and compares answers")
struct SimulateCommandTests {
    private static let app = ["--bundle-id", V1Body.app, "--secret", V1Body.secret]

    private static func lines(_ text: String) throws -> [[String: Any]] {
        try text.split(separator: "\n").map { line in
            try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
        }
    }

    @Test("a server that received every notification, shuffled and with repeats, gives every expected answer")
    func againstServer() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("subledger-\(UUID())").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let server = try ServerProcess(dataFolder: folder)
        let ports = try await server.ports()
        let posting = ["--url", "http://127.0.0.1:\(ports.public)/apple/notifications"]
        let token = try ServerProcess.token("link", dataFolder: folder)
        let comparing = ["--compare", "http://127.0.0.1:\(ports.private)", "--token", token]
        let scenario = ["--format", "v1", "--subscriptions", "60"] + Self.app
        let products = "\(folder).csv"
        defer { try? FileManager.default.removeItem(atPath: products) }
        let written = try ServerProcess.simulate(["--write-products", products] + Self.app)
        let imported = try ServerProcess.run(["product", "import", products, "--data-folder", folder])

        let full = try ServerProcess.simulate(
            scenario + posting + comparing + ["--order", "shuffled", "--duplicate", "0.2"])
        let lossy = try ServerProcess.simulate(
            scenario + posting + comparing + ["--seed", "2", "--order", "reversed", "--lose", "0.3"])
        let untilNow = try ServerProcess.simulate(
            ["--format", "v1", "--subscriptions", "20", "--seed", "5", "--order", "shuffled", "--until", "now"]
                + Self.app + posting + comparing)
        let unknown = try ServerProcess.simulate(
            ["--stories", "renewals", "--subscriptions", "2", "--seed", "3"] + Self.app + comparing)
        let rejected = try ServerProcess.simulate(
            ["--format", "v1", "--subscriptions", "1", "--bundle-id", V1Body.app, "--secret", "wrong"]
                + posting)
        let linkless = try ServerProcess.simulate(
            ["--format", "v1", "--stories", "linked", "--subscriptions", "1", "--seed", "4"] + Self.app
                + posting)
        server.signal(SIGTERM)
        try await server.hasEnded()

        #expect(
            linkless.status == 0
                && linkless.error.hasSuffix("2 link statements not sent: expected --links or --compare\n"))
        #expect(written.status == 0 && imported.status == 0, "\(imported.error)")
        #expect(full.status == 0, "\(full.output)\(full.error)")
        #expect(full.error.contains(/sent link statements \d+, answered 200: \d+, rejected: 0, failed: 0/))
        #expect(full.output.hasSuffix(", differences: 0\n"))
        #expect(full.error.contains("rejected: 0, failed: 0"))
        #expect(untilNow.status == 0 && untilNow.output.hasSuffix(", differences: 0\n"), "\(untilNow.output)")
        #expect(lossy.status == 0)
        #expect(lossy.output.contains("differences: 0, and "))
        #expect(lossy.output.contains(" (notifications lost)\n"))
        #expect(unknown.status == 1)
        #expect(unknown.output.contains("(renewals) at "))
        #expect(unknown.output.contains(": expected active, answered not active\n"))
        #expect(rejected.status == 65)
        #expect(rejected.error.contains("answered 403: "))
    }

    private static let policies = ["latest-buyer", "first-buyer", "shared"]

    @Test("a server with an app for each ownership policy gives every expected answer and refuses the expected links")
    func ownership() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("subledger-\(UUID())").path
        let (apps, products, root) = ("\(folder).json", "\(folder).csv", "\(folder).pem")
        defer { for path in [folder, apps, products, root] { try? FileManager.default.removeItem(atPath: path) } }
        let entries = Self.policies.map { policy in
            #"{"bundleId":"com.example.\#(policy)","sharedSecrets":["\#(V1Body.secret)"],"ownership":"\#(policy)"}"#
        }
        try Data("[\(entries.joined(separator: ","))]".utf8).write(to: URL(fileURLWithPath: apps))
        let rooted = try ServerProcess.simulate(["--write-root", root])
        let server = try ServerProcess(
            dataFolder: folder,
            environment: ["SUBLEDGER_APPS_FILE": apps, "SUBLEDGER_ROOT_FILES": root, "SUBLEDGER_OCSP": "off"])
        let ports = try await server.ports()
        let token = try ServerProcess.token("link", dataFolder: folder)
        let posting = ["--url", "http://127.0.0.1:\(ports.public)/apple/notifications", "--token", token]
        let reading = "http://127.0.0.1:\(ports.private)"
        #expect(rooted.status == 0, "\(rooted.error)")

        for (policy, order) in zip(Self.policies, ["in-order", "shuffled", "reversed"]) {
            let app = ["--bundle-id", "com.example.\(policy)", "--secret", V1Body.secret]
            let written = try ServerProcess.simulate(["--write-products", products] + app)
            let imported = try ServerProcess.run(["product", "import", products, "--data-folder", folder])
            let stories = "shared-device,upgrade-by-another-user,account-token-set-late,users-of-apple-account,family,"
            let compared = try ServerProcess.simulate(
                [
                    "--stories", stories + "transfer,token-and-link,link-moved",
                    "--subscriptions", "\(TestScale.count(16, full: 40))",
                    "--format", "both", "--order", order, "--duplicate", "0.2", "--ownership", policy, "--compare",
                    reading,
                ] + app + posting, limit: 200)

            #expect(written.status == 0 && imported.status == 0, "\(imported.error)")
            #expect(compared.status == 0, "\(policy): \(compared.output)\(compared.error)")
            #expect(compared.output.hasSuffix(", differences: 0\n"))
            #expect(compared.error.contains("refused as expected: ") == (policy == "first-buyer"), "\(compared.error)")
        }
        let accepted = try ServerProcess.simulate(
            [
                "--stories", "transfer", "--subscriptions", "10", "--seed", "2", "--ownership",
                "first-buyer", "--bundle-id", "com.example.latest-buyer", "--secret", V1Body.secret, "--links", reading,
            ] + posting)
        server.signal(SIGTERM)
        try await server.hasEnded()

        #expect(accepted.status == 1)
        #expect(accepted.error.contains(", wrongly accepted: "), "\(accepted.error)")
    }

    @Test("fold computes the expected answers from the written notifications")
    func files() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("subledger-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let bodies = folder.appendingPathComponent("bodies").path
        let answers = folder.appendingPathComponent("answers").path
        let root = folder.appendingPathComponent("root.pem").path

        let written = try ServerProcess.simulate(
            [
                "--format", "v1", "--stories", "upgrade-then-refund", "--subscriptions", "1", "--output",
                bodies, "--expected", answers, "--write-root", root,
            ] + Self.app)

        #expect(written.status == 0 && written.output.isEmpty && written.error.isEmpty, "\(written.error)")
        #expect(try String(contentsOfFile: root, encoding: .utf8).hasPrefix("-----BEGIN CERTIFICATE-----\n"))
        let expected = try Self.lines(String(contentsOfFile: answers, encoding: .utf8))
        #expect(expected.contains { $0["originalTransactionId"] != nil })
        for answer in expected where answer["originalTransactionId"] != nil {
            let at = try #require(answer["at"] as? String)
            let folded = try ServerProcess.run(["fold", bodies, "--at", at])
            let subscription = try #require(try Self.lines(folded.output).first)
            #expect(subscription["active"] as? Bool == answer["active"] as? Bool, "\(at)")
            #expect(subscription["originalTransactionId"] as? String == answer["originalTransactionId"] as? String)
            #expect(subscription["environment"] as? String == answer["environment"] as? String)
            #expect(subscription["app"] as? String == answer["app"] as? String)
        }
    }

    @Test("the product configuration is written as CSV for product import")
    func products() throws {
        let written = try ServerProcess.simulate(["--write-products", "-"] + Self.app)

        #expect(written.status == 0)
        let lines = written.output.split(separator: "\n")
        #expect(lines.first == "app,product_id,kind,duration,entitlements")
        #expect(lines.count == 18)
        #expect(lines.contains("\(V1Body.app),\(V1Body.app).premium.yearly,auto-renewable,,premium plus"))
        #expect(lines.contains("\(V1Body.app),\(V1Body.app).basic.weekly,auto-renewable,,"))
        #expect(lines.contains("\(V1Body.app),\(V1Body.app).lifetime,non-consumable,,premium"))
    }

    @Test("links are written in the order of sending, and answers for every id of a customer")
    func customers() throws {
        let arguments =
            ["--stories", "link-moved", "--subscriptions", "1", "--format", "v2"] + Self.app

        let links = try Self.lines(try ServerProcess.simulate(arguments + ["--write-links", "-"]).output)
        let answers = try Self.lines(try ServerProcess.simulate(arguments + ["--expected", "-"]).output)

        #expect(
            links.map { $0["backendCustomerId"] as? String }
                == ["user-1-0-1", "user-1-0-2", "user-1-0-1", "user-1-0-2"])
        let ids = Set(answers.compactMap { $0["customerId"] as? String })
        #expect(ids.isSuperset(of: ["user-1-0-1", "user-1-0-2", "70000010000000000", "70000010000000002"]))
        for answer in answers where answer["customerId"] != nil {
            #expect(answer["entitlement"] is String && answer["at"] is String && answer["active"] is Bool)
            let isOwn = (answer["customerId"] as? String)?.hasPrefix("user-") == true
            #expect((answer["as"] as? String == "link") == isOwn)
            #expect((answer["until"] != nil) == (answer["active"] as? Bool == true))
        }
    }

    @Test("an existing output file keeps its kind: a symbolic link is followed, a pipe stays a pipe")
    func inPlace() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("subledger-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let target = folder.appendingPathComponent("target").path
        let link = folder.appendingPathComponent("link").path
        let pipe = folder.appendingPathComponent("pipe").path
        try Data(repeating: 0x20, count: 5000).write(to: URL(fileURLWithPath: target))
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: target)
        try #require(mkfifo(pipe, 0o600) == 0)
        // Held open, so that writing need not wait for a reader; a certificate fits into the pipe.
        let reader = open(pipe, O_RDWR | O_NONBLOCK)
        defer { close(reader) }

        let throughLink = try ServerProcess.simulate(["--write-root", link])
        let throughPipe = try ServerProcess.simulate(["--write-root", pipe])

        #expect(throughLink.status == 0 && throughPipe.status == 0)
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == target)
        let written = try String(contentsOfFile: target, encoding: .utf8)
        #expect(written.hasPrefix("-----BEGIN CERTIFICATE-----\n") && written.hasSuffix("-----END CERTIFICATE-----\n"))
        var status = stat()
        #expect(lstat(pipe, &status) == 0 && status.st_mode & S_IFMT == S_IFIFO)
    }

    @Test("the error for a file that cannot be written names the file")
    func unwritable() throws {
        let result = try ServerProcess.simulate(["--expected", "/nowhere/answers"])

        #expect(result.status == 78)
        #expect(result.error == "store-simulator: /nowhere/answers cannot be written\n")
    }

    @Test("receipts are written in the order of time, with the app user's ids")
    func receipts() throws {
        let arguments = ["--stories", "linked,upgrade", "--subscriptions", "6"] + Self.app

        let written = try ServerProcess.simulate(arguments + ["--write-receipts", "-"])

        let lines = try Self.lines(written.output)
        let instants = try lines.map { try #require($0["at"] as? String) }
        // Two accounts in a story of links, two purchases in one of an upgrade, and restores by chance.
        #expect(lines.count >= 12 && instants == instants.sorted())
        #expect(Set(lines.compactMap { $0["occasion"] as? String }).isSuperset(of: ["purchase", "upgrade"]))
        for line in lines {
            let receipt = try #require((line["receipt"] as? String).flatMap { Data(base64Encoded: $0) })
            #expect(receipt.first == 0x30)
            #expect((line["backendCustomerId"] != nil) == (line["story"] as? String == "linked"))
            #expect(line["originalTransactionId"] is String)
        }
        #expect(try ServerProcess.simulate(arguments + ["--write-receipts", "-"]).output == written.output)
    }

    @Test("the key of the simulated Server API is written as PEM")
    func apiKey() throws {
        let written = try ServerProcess.simulate(["--write-api-key", "-"])

        #expect(written.status == 0)
        #expect(written.output.hasPrefix("-----BEGIN PRIVATE KEY-----\n"))
        #expect(written.output.hasSuffix("-----END PRIVATE KEY-----\n"))
    }

    @Test("the same arguments write the same bodies; - is standard output")
    func repeatable() throws {
        let arguments = ["--format", "v1", "--order", "shuffled", "--output", "-"] + Self.app

        let first = try ServerProcess.simulate(arguments)

        #expect(first.output.split(separator: "\n").count > 20)
        #expect(try ServerProcess.simulate(arguments).output == first.output)
        #expect(try ServerProcess.simulate(arguments + ["--seed", "2"]).output != first.output)
    }

    @Test("without a server the exit status is 69")
    func noServer() async throws {
        let arguments = ["--subscriptions", "1"]

        // Each tries for some seconds.
        async let posting = ServerProcess.simulate(arguments + ["--url", "http://127.0.0.1:9/"])
        async let asking = ServerProcess.simulate(arguments + ["--compare", "http://127.0.0.1:9"])
        let (posted, asked) = try await (posting, asking)

        #expect(posted.status == 69)
        #expect(posted.error.hasSuffix("store-simulator: no answer from http://127.0.0.1:9/\n"))
        #expect(asked.status == 69)
    }

    @Test(
        "invalid arguments are reported with exit status 64",
        arguments: [
            (
                ["--output", "-", "--stories", "renewals,nope"],
                "unknown story \"nope\": expected trial-conversion, "
            ),
            (["--output", "-", "--url", "http://127.0.0.1/"], "--url and --output exclude each other."),
            ([], "no action given: expected --url, --output, --write-root, --write-products, "),
            (["--output", "-", "--links", "http://127.0.0.1"], "--links requires --url."),
            (["--output", "-", "--ownership", "everybody"], "The value 'everybody' is invalid for '--ownership"),
            (["--serve-store", "65536"], "--serve-store is out of range: expected 0 to 65535."),
            (["--output", "-", "--store-faults", "0.1"], "--store-faults requires --serve-store, or --in-step"),
            (
                ["--output", "-", "--store-notifications", "http://127.0.0.1/"],
                "--store-notifications requires --serve-store."
            ),
            (["--serve-store", "0", "--store-notifications", "nowhere"], "invalid URL \"nowhere\": expected "),
            (["--serve-store", "0", "--store-faults", "2"], "--store-faults is out of range: expected 0 to 1."),
            (["--output", "-", "--lose", "1.5"], "--lose is out of range: expected 0 to 1."),
            (["--output", "-", "--until", "yesterday"], "The value 'yesterday' is invalid for '--until"),
            (
                ["--output", "-", "--until", "2026-06-30"],
                "--until is out of range: expected 2026-06-30T23:59:59.000Z to now."
            ),
            (["--output", "-", "--until", "2999-01-01"], "--until is out of range: expected "),
            (["--output", "-", "--churn", "0.1"], "--churn requires --until."),
            (["--output", "-", "--until", "now", "--churn", "2"], "--churn is out of range: expected 0 to 1."),
            (
                ["--in-step", "--until", "now", "--lose", "0.1", "--data-folder", "/nowhere"],
                "--in-step with --until excludes --order, --lose, "
            ),
            (["--output", "-", "--subscriptions", "0"], "--subscriptions is out of range: expected 1 to "),
            (["--url", "nowhere"], "invalid URL \"nowhere\": expected "),
            (["--output", "-", "--environment", "production"], "production in version 2 requires --apple-id"),
            (
                ["--output", "-", "--format", "v1", "--stories", "extension"],
                "--format v1 covers none of these stories"
            ),
        ])
    func misuse(_ arguments: [String], _ message: String) throws {
        let result = try ServerProcess.simulate(arguments)

        #expect(result.status == 64)
        #expect(result.error.contains(message), "\(result.error)")
        #expect(result.output.isEmpty)
    }

    @Test(
        "subledger names the program that the simulated stores have become, with exit status 64",
        arguments: [[], ["--list-stories"], ["--in-step", "--data-folder", "/nowhere"], ["--help"]])
    func formerCommand(_ arguments: [String]) throws {
        let result = try ServerProcess.run(["simulate"] + arguments)

        #expect(result.status == 64)
        #expect(
            result.error
                == "Error: simulate is no command of subledger: expected `store-simulator` with the same options.\n")
        #expect(result.output.isEmpty)
        #expect(try ServerProcess.run(["--help"]).output.contains("simulat") == false)
    }

    /// The names of a module's own symbols are in each program that is linked with it.
    @Test("the program of a server contains neither the simulated stores nor their keys")
    func separate() throws {
        for trace in ["$s10Simulation", "simulated-project.iam.gserviceaccount.com"] {
            #expect(try Self.contains(ServerProcess.simulator, trace), "\(trace)")
            #expect(try !Self.contains(ServerProcess.executable, trace), "\(trace)")
        }
        #expect(try Self.contains(ServerProcess.executable, "$s6Server"))
    }

    /// Searching the bytes of a program in a debug build takes a minute.
    private static func contains(_ program: URL, _ text: String) throws -> Bool {
        let search = try Process.run(
            URL(fileURLWithPath: "/usr/bin/env"),
            ["grep", "--quiet", "--text", "--fixed-strings", "--", text, program.path], limit: 60)
        try #require(search.status <= 1, "\(search.errorText)")
        return search.status == 0
    }

    @Test("stories are listed with their descriptions")
    func list() throws {
        let result = try ServerProcess.simulate(["--list-stories"])

        #expect(result.status == 0)
        let lines = result.output.split(separator: "\n")
        #expect(lines.count == Story.allCases.count)
        #expect(
            lines.contains(
                "extension                     a period extended by free days [version 2 only]"))
    }
}
