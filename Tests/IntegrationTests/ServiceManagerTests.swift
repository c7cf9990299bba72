import Foundation
import TestSupport
import Testing

@testable import Server

@Suite("Reports to the service manager")
struct ServiceManagerTests {
    @Test(
        "the server reports that it is ready once both listeners are up, then that it is alive, and that it stops",
        arguments: [false, true])
    func life(isAbstract: Bool) async throws {
        let manager = try ManagerSocket(isAbstract: isAbstract)
        let database = try await SharedDatabase.make()
        // In a file, a line is readable once it is written, so the log shows what came before a message.
        let logFile = TestFolder.path("manager") + ".log"
        defer { try? FileManager.default.removeItem(atPath: logFile) }
        let server = try database.server(
            "receiver,reader", more: ["NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "40000"], logFile: logFile)
        var messages: [String] = []
        func receive(_ what: String, _ isDone: ([String]) -> Bool) async throws {
            _ = try await eventually(what) {
                messages += manager.messages()
                return isDone(messages) ? true : nil
            }
        }

        try await receive("the server is ready") { !$0.isEmpty }
        let ports = try #require(server.portsIfUp)
        #expect(try await HTTPClient(port: ports.public).get("/health/live").status == 200)
        #expect(try await HTTPClient(port: ports.private).get("/health/live").status == 200)
        try await receive("the server is alive") { $0.count >= 4 }
        server.signal(SIGTERM)
        try await server.hasEnded()
        messages += manager.messages()

        #expect(server.exitStatus == 0)
        #expect(messages.first == "READY=1")
        #expect(messages.last == "STOPPING=1\nWATCHDOG=1")
        #expect(messages.dropFirst().dropLast().allSatisfy { $0 == "WATCHDOG=1" }, "\(messages)")
        try await database.drop()
    }

    @Test("a watchdog that is meant for another process is not served")
    func otherProcess() async throws {
        let manager = try ManagerSocket(isAbstract: true)
        let database = try await SharedDatabase.make()
        let server = try database.server(
            "projector", more: ["NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"])

        let ready = try await eventually("the server is ready") {
            let messages = manager.messages()
            return messages.isEmpty ? nil : messages
        }
        let port = try await server.privatePort()
        for _ in 0..<20 { #expect(try await HTTPClient(port: port).get("/health/live").status == 200) }
        server.signal(SIGTERM)
        try await server.hasEnded()

        #expect(ready + manager.messages() == ["READY=1", "STOPPING=1"])
        try await database.drop()
    }

    @Test("a server that cannot listen never reports that it is ready")
    func portInUse() async throws {
        let manager = try ManagerSocket(isAbstract: true)
        let database = try await SharedDatabase.make()
        let first = try database.server("receiver")
        let taken = try await first.ports().public
        let server = try database.server("receiver", more: ["NOTIFY_SOCKET": manager.name], publicPort: taken)
        try await server.hasEnded()

        #expect(server.exitStatus == 69)
        #expect(!manager.messages().contains { $0.contains("READY") })

        first.signal(SIGTERM)
        try await first.hasEnded()
        try await database.drop()
    }

    @Test(
        "only absolute paths and abstract names that fit into an address are sockets",
        arguments: ["", "/", "@", "vsock:2:1234", "run/notify", "/\(String(repeating: "n", count: 107))"])
    func names(_ text: String) {
        #expect(NotifySocket(text) == nil)
        #expect(NotifySocket("/\(String(repeating: "n", count: 106))") != nil)
    }

    @Test("a socket that nobody reads is reported as not received")
    func unread() {
        #expect(NotifySocket("@subledger-nobody-\(UUID().uuidString)")?.send("READY=1") == false)
    }
}
