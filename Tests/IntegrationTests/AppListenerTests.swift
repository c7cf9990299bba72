import AppStore
import EventLog
import Foundation
import TestSupport
import Testing

@testable import HTTPServer

/// What apps may do on the listener that the stores' notifications reach as well.
@Suite("Apps on the public listener")
struct AppListenerTests {
    private static let app = SignedBody.app
    private static let handInPath = "/transactions?app=\(app)&environment=any"
    /// The operations of apps, beside health checks.
    private static let opened: Set = [
        "GET /customers/{customerId}/entitlements", "POST /purchases", "POST /transactions",
    ]
    private static let health: Set = ["GET /health", "GET /health/live", "GET /health/ready"]

    /// A server that serves apps on its public listener, and a publishable token.
    private static func withServer(
        isOn: Bool = true, connectionsPerAddress: Int = HTTPServer.Limits.publicConnectionsPerAddress,
        _ test: (TestBundle, String) async throws -> Void
    ) async throws {
        let keys = try #require(AssertionKeys(secrets: [AssertionText.secret], publicKeys: []))
        try await TestBundle.withServer(
            apps: [App(bundleId: app)], roots: SignedBody.roots, assertions: [app: keys], publicApps: isOn,
            connectionsPerAddress: connectionsPerAddress
        ) { server in
            try await test(server, try await TestBundle.token(.publishable, server.database, app: app))
        }
    }

    private static func send(
        _ server: TestBundle, _ token: String?, _ method: String, _ path: String, customer: String = "u-1",
        assertion: String? = nil, body: [UInt8]? = nil
    ) async throws -> HTTPAnswer {
        try await HTTPClient(port: server.apple.port, token: token, patience: server.apple.patience).send(
            method, path,
            headers: ["Subledger-Assertion": assertion ?? AssertionText.hs256(AssertionText.claims(customer))],
            body: body)
    }

    private static func entitlements(_ customer: String = "u-1") -> String {
        "/customers/\(customer)/entitlements?app=\(app)&environment=sandbox"
    }

    private static func body(_ text: String = DeviceText.transaction()) -> [UInt8] {
        Array(#"{"signedTransaction":"\#(text)"}"#.utf8)
    }

    // MARK: - Routes and tokens

    @Test("off by default: apps' routes do not exist, and notifications do")
    func off() async throws {
        try await Self.withServer(isOn: false) { server, token in
            let handedIn = try await Self.send(server, token, "POST", Self.handInPath, body: Self.body())
            let read = try await Self.send(server, token, "GET", Self.entitlements())
            let notified = try await server.apple.post(SignedBody.make())

            #expect(handedIn.status == 404 && read.status == 404)
            #expect(notified.status == 200)
        }
    }

    @Test("every other route of the private listener does not exist, whatever the token")
    func everyRoute() async throws {
        try await Self.withServer { server, publishable in
            let admin = try await TestBundle.token(.admin, server.database)
            var count = 0
            for operation in server.operations + server.pages where !Self.health.contains(operation) {
                let parts = operation.split(separator: " ").map(String.init)
                let path = parts[1].replacing(/\{[^}]*\}/, with: "1")
                // The routes of apps exist with one method each, and HEAD of a path is GET without the body.
                guard !Self.opened.contains(operation), parts[0] != "HEAD" else { continue }
                count += 1
                for token in [publishable, admin, nil] {
                    let answer = try await Self.send(server, token, parts[0], path)
                    #expect(answer.status == 404, "\(operation)")
                    #expect(answer.body == "{\"error\":\"not found\"}\n", "\(operation)")
                }
            }
            #expect(count > 50)
        }
    }

    @Test("no token but a publishable one is accepted, whatever its scope")
    func scopes() async throws {
        try await Self.withServer { server, publishable in
            for scope in TokenScope.allCases where scope != .publishable {
                let token = try await TestBundle.token(scope, server.database)
                let read = try await eventually("the server knows the token") {
                    let answer = try await Self.send(server, token, "GET", Self.entitlements())
                    return answer.status == 401 ? nil : answer
                }
                let handedIn = try await Self.send(server, token, "POST", Self.handInPath, body: Self.body())

                #expect(read.status == 403 && handedIn.status == 403, "\(scope)")
                #expect(
                    read.json["detail"] as? String
                        == "the token has scope \(scope.rawValue), but publishable is required")
                #expect(read.headers["content-type"] == "application/problem+json")
            }
            let unknown = String(publishable.dropLast(4)) + "0000"
            #expect(try await Self.send(server, unknown, "GET", Self.entitlements()).status == 401)
            #expect(try await Self.send(server, nil, "GET", Self.entitlements()).status == 401)
            #expect(try await server.sql("select count(*)::text from subledger.event") == ["0"])
        }
    }

    @Test("a user hands in and reads; another customer, and an assertion that expired or is another app's, are refused")
    func own() async throws {
        try await Self.withServer { server, token in
            let handed = try await Self.send(server, token, "POST", Self.handInPath, body: Self.body())
            try await server.isFolded()
            let signed = try await Self.send(server, token, "GET", Self.entitlements() + "&signed=true")
            let other = try await Self.send(server, token, "GET", Self.entitlements("u-2"))
            let expired = try await Self.send(
                server, token, "GET", Self.entitlements(),
                assertion: AssertionText.hs256(AssertionText.claims(exp: AssertionText.now - 1)))
            let foreign = try await Self.send(
                server, token, "GET", Self.entitlements(),
                assertion: AssertionText.hs256(secret: "the secret of another app's backend, 32 b"))

            #expect(handed.status == 200, "\(handed.body)")
            #expect(handed.json["linked"] as? Bool == true)
            #expect(signed.status == 200 && signed.headers["content-type"] == "application/jwt")
            #expect(signed.headers["x-content-type-options"] == "nosniff")
            #expect(other.status == 403 && other.json["field"] as? String == "customerId")
            #expect(expired.status == 401)
            #expect(expired.json["detail"] as? String == "the assertion has expired")
            #expect(foreign.status == 401)
            #expect(foreign.json["detail"] as? String == "none of the app's keys signed the assertion")
        }
    }

    @Test("two devices that hand one purchase in at once are both answered 200, and it is stored once")
    func twice() async throws {
        try await Self.withServer { server, token in
            async let first = Self.send(server, token, "POST", Self.handInPath, body: Self.body())
            async let second = Self.send(server, token, "POST", Self.handInPath, body: Self.body())
            let statuses = try await [first, second].map(\.status)

            #expect(statuses == [200, 200])
            #expect(
                try await server.sql("select count(*)::text from subledger.event where kind = 'transaction'") == ["1"])
        }
    }

    @Test("a hand-in of a megabyte is refused as too long, one above the bound before it is read, and both in words")
    func large() async throws {
        try await Self.withServer { server, token in
            let megabyte = Self.body(String(repeating: "a", count: 1 << 20))
            let tooLarge = Self.body(String(repeating: "a", count: HTTPServer.Limits.transactionsBodyBytesMax))
            let long = try await Self.send(server, token, "POST", Self.handInPath, body: megabyte)
            let longer = try await Self.send(server, token, "POST", Self.handInPath, body: tooLarge)
            let after = try await Self.send(server, token, "POST", Self.handInPath, body: Self.body())

            #expect(long.status == 413 && longer.status == 413, "\(long.body)\(longer.body)")
            #expect(long.json["field"] as? String == "signedTransaction")
            #expect(longer.json["detail"] as? String == "the body is larger than 2097152 bytes")
            #expect(after.status == 200)
        }
    }

    // MARK: - Floods

    /// A request that announces a body, which never arrives.
    private static func unending(_ token: String, _ customer: String) -> String {
        """
        POST \(handInPath) HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(token)\r\n\
        Subledger-Assertion: \(AssertionText.hs256(AssertionText.claims(customer)))\r\nContent-Length: 1000\r\n\r\n
        """
    }

    /// Connections with requests that never end, each of an address with a text.
    private final class Holders {
        private let port: Int
        private let request: (Int) -> (address: String, text: String)
        private var connections: [RawConnection] = []

        init(_ count: Int, _ port: Int, _ request: @escaping (Int) -> (address: String, text: String)) throws {
            self.port = port
            self.request = request
            connections = try (0..<count).map(connect)
        }

        private func connect(_ number: Int) throws -> RawConnection {
            let request = request(number)
            let connection = try RawConnection(port: port, from: request.address)
            connection.write(request.text)
            return connection
        }

        /// Connects again what was answered, as the server does after a while with a request that does not end.
        func renew() throws {
            for number in connections.indices where !connections[number].read().isEmpty || connections[number].hasEnded
            {
                connections[number] = try connect(number)
            }
        }

        var areAllHeld: Bool { connections.allSatisfy { !$0.hasEnded } }
    }

    private static func question(_ token: String, _ customer: String, closing: Bool = true) -> String {
        """
        GET \(entitlements(customer)) HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(token)\r\n\
        Subledger-Assertion: \(AssertionText.hs256(AssertionText.claims(customer)))\r\n\
        \(closing ? "Connection: close\r\n" : "")\r\n
        """
    }

    /// The status of the answer to a request from a local address.
    private static func status(_ request: String, _ port: Int, from address: String) async throws -> String {
        let connection = try RawConnection(port: port, from: address)
        connection.write(request)
        return try await eventually(within: .seconds(60), "an answer") {
            let text = connection.read()
            return text.hasPrefix("HTTP/1.1 ") ? String(text.dropFirst(9).prefix(3)) : nil
        }
    }

    @Test("an address that holds its places gets 429, and delays neither other addresses nor notifications")
    func heldByAddress() async throws {
        // A few places: holding them takes no time, even on a machine that does much else.
        let places = 4
        try await Self.withServer(connectionsPerAddress: places * HTTPServer.Limits.appPlacesDivisor) {
            server, token in
            let port = server.apple.port
            let held = try Holders(places, port) { ("127.0.0.2", Self.unending(token, "v-\($0)")) }
            // The places are taken once the requests have arrived.
            _ = try await eventually(within: .seconds(60), "the address is refused") {
                try held.renew()
                // Of another customer each time: what one may ask is limited, too.
                let question = Self.question(token, "p-\(UUID())")
                return try await Self.status(question, port, from: "127.0.0.2") == "429" ? true : nil
            }
            let begun = ContinuousClock.now
            let other = try await Self.status(Self.question(token, "w"), port, from: "127.0.0.3")
            let notified = try await server.apple.post(SignedBody.make())
            let time = ContinuousClock.now - begun

            #expect(other == "404")
            #expect(notified.status == 200)
            // The bodies of the others would be awaited for 15 seconds.
            #expect(time < .seconds(10))
            #expect(held.areAllHeld)
        }
    }

    @Test("a customer who holds the places of a customer gets 429, and delays neither others nor notifications")
    func heldByCustomer() async throws {
        try await Self.withServer { server, token in
            let port = server.apple.port
            let held = try Holders(HTTPServer.Limits.userRequestsAtOnceMax, port) {
                ("127.0.0.\(2 + $0)", Self.unending(token, "u-1"))
            }
            _ = try await eventually(within: .seconds(60), "the customer is refused") {
                try held.renew()
                return try await Self.status(Self.question(token, "u-1"), port, from: "127.0.0.1") == "429" ? true : nil
            }

            #expect(try await Self.status(Self.question(token, "u-2"), port, from: "127.0.0.2") == "404")
            #expect(try await server.apple.post(SignedBody.make()).status == 200)
            #expect(held.areAllHeld)
        }
    }

    /// Sends a request again and again on one connection, and counts the answers by status.
    private static func flood(
        _ request: String, _ count: Int, _ port: Int, from address: String
    ) async throws -> [String: Int] {
        let connection = try RawConnection(port: port, from: address)
        var (sent, answered, unread) = (0, 0, "")
        var statuses: [String: Int] = [:]
        while answered < count {
            // A few at a time, so that neither end's buffer fills up.
            while sent < count, sent - answered < 20 {
                #expect(connection.write(request) == request.utf8.count)
                sent += 1
            }
            let found = try await eventually(within: .seconds(60), "an answer") {
                unread += connection.read()
                let found = unread.matches(of: /HTTP\/1\.1 (\d\d\d)/)
                return found.isEmpty ? nil : found
            }
            for status in found { statuses[String(status.output.1), default: 0] += 1 }
            answered += found.count
            unread = found.last.map { String(unread[$0.range.upperBound...]) } ?? unread
        }
        return statuses
    }

    @Test("a flood of one address gets 429, one of one customer too; others and notifications are answered meanwhile")
    func floods() async throws {
        try await Self.withServer { server, token in
            let port = server.apple.port
            let (ofAddress, ofCustomer) = (
                HTTPServer.Limits.appRequestBurstMax, HTTPServer.Limits.userRequestBurstMax
            )
            let nobody = "GET \(Self.entitlements()) HTTP/1.1\r\nHost: x\r\n\r\n"
            let question = Self.question(token, "u-1", closing: false)
            let start = ContinuousClock.now
            async let address = Self.flood(nobody, ofAddress * 3, port, from: "127.0.0.2")
            async let customer = Self.flood(question, ofCustomer + 100, port, from: "127.0.0.3")
            var slowest = Duration.zero
            for number in 0..<30 {
                let begun = ContinuousClock.now
                let other = try await Self.status(Self.question(token, "w-\(number)"), port, from: "127.0.0.4")
                let body = SignedBody.make(
                    uuid: UUID().uuidString.lowercased(), signedAt: 1_757_000_000_000 + Int64(number))
                let notified = try await server.apple.post(body)
                slowest = max(slowest, ContinuousClock.now - begun)
                #expect(other == "404")
                #expect(notified.status == 200)
            }
            let (addressStatuses, customerStatuses) = try await (address, customer)

            // A machine that sends no faster than the allowed rate does not exhaust it; PublishableTokenTests has the
            // limit itself, by a clock of its own.
            let allowed = Double(HTTPServer.Limits.appRequestsPerSecond) * ((ContinuousClock.now - start) / .seconds(1))
            #expect(Set(addressStatuses.keys).isSubset(of: ["401", "429"]), "\(addressStatuses)")
            if Double(ofAddress * 2) > allowed { #expect(addressStatuses["429"] ?? 0 > 0, "\(addressStatuses)") }
            #expect(addressStatuses["401"] ?? 0 >= ofAddress)
            #expect(Set(customerStatuses.keys) == ["404", "429"], "\(customerStatuses)")
            #expect(customerStatuses["404"] ?? 0 >= ofCustomer)
            #expect(slowest < .seconds(10), "\(slowest)")
        }
    }

    @Test(
        "a flood of one customer's hand-ins of 100 texts each gets 429; notifications and other questions are answered")
    func floodOfTexts() async throws {
        try await Self.withServer { server, token in
            let texts = Array(repeating: "\"\(DeviceText.transaction())\"", count: 100).joined(separator: ",")
            let body = Array("{\"signedTransaction\":[\(texts)]}".utf8)
            let burst = HTTPServer.Limits.handInBurstMax / 10
            let start = ContinuousClock.now
            async let flood = withThrowingTaskGroup(of: [Int].self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        var statuses: [Int] = []
                        for _ in 0..<burst / 2 {
                            statuses += [
                                try await Self.send(server, token, "POST", Self.handInPath, body: body).status
                            ]
                        }
                        return statuses
                    }
                }
                return try await group.reduce([], +)
            }
            var slowest = Duration.zero
            for number in 0..<30 {
                let begun = ContinuousClock.now
                let customer = "w-\(number)"
                let other = try await Self.send(
                    server, token, "GET", Self.entitlements(customer), customer: customer)
                let body = SignedBody.make(
                    uuid: UUID().uuidString.lowercased(), signedAt: 1_757_000_000_000 + Int64(number))
                let notified = try await server.apple.post(body)
                slowest = max(slowest, ContinuousClock.now - begun)
                #expect(other.status == 404)
                #expect(notified.status == 200)
            }
            let statuses = try await flood

            let accepted = statuses.count { $0 == 200 }
            let refilled = Int((ContinuousClock.now - start) / .seconds(10)) + 1
            #expect(Set(statuses).isSubset(of: [200, 429]), "\(statuses)")
            #expect(statuses.count == burst * 2)
            // On a slow machine, places run out before the rate does; TransactionRoutesTests has the count of each request.
            #expect(accepted > 0 && accepted <= burst + refilled, "\(accepted) accepted, \(refilled) refilled")
            #expect(slowest < .seconds(60), "\(slowest)")
        }
    }

    // MARK: - The setting

    @Test("a setting that is neither on nor off is refused in words")
    func setting() throws {
        let result = try ServerProcess.run(["serve", "--public-apps", "yes", "--data-folder", "/nowhere/at/all"])

        #expect(result.status != 0)
        #expect(result.error.contains("public apps \"yes\": expected on or off"), "\(result.error)")
    }

    @Test("a reader serves apps on a public listener of its own, without notifications; a receiver serves none")
    func roles() async throws {
        let folder = TestFolder.path("app-listener")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        func statuses(_ roles: String) async throws -> (notified: Int, read: Int, health: Int, log: String) {
            let server = try ServerProcess(
                dataFolder: folder, environment: ["SUBLEDGER_ROLES": roles, "SUBLEDGER_PUBLIC_APPS": "on"])
            let client = HTTPClient(port: try await server.ports().public, patience: .seconds(60))
            let notified = try await client.post(Array("{}".utf8)).status
            let read = try await client.get(Self.entitlements()).status
            let health = try await client.get("/health").status
            server.signal(SIGTERM)
            try await server.hasEnded()
            return (notified, read, health, server.log)
        }

        let reader = try await statuses("reader,projector")
        let receiver = try await statuses("receiver")

        #expect((reader.notified, reader.read, reader.health) == (404, 401, 200), "\(reader.log)")
        #expect(reader.log.contains("no app has keys for assertions; every request of an app receives 403"))
        #expect((receiver.notified, receiver.read, receiver.health) == (400, 404, 200), "\(receiver.log)")
        #expect(!receiver.log.contains("no app has keys"))
    }
}
