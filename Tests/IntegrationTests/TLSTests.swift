import Foundation
import TestSupport
import Testing

@Suite("TLS on both listeners")
struct TLSTests {
    private static func curl(_ arguments: String...) throws -> (status: Int32, output: String) {
        let result = try Process.run(
            command: ["curl", "--silent", "--show-error", "--max-time", "20"] + arguments, joined: true)
        return (result.status, result.outputText)
    }

    /// Certificate files, and a server that uses them.
    private struct Bench {
        let folder: String
        let old: ServerCertificate
        let new: ServerCertificate

        init() throws {
            folder = TestFolder.path("tls")
            try FileManager.default.createDirectory(
                atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o711])
            (old, new) = (try ServerCertificate(), try ServerCertificate())
            try write(old.certificatePEM, "old.pem")
            try write(new.certificatePEM, "new.pem")
            try write(old.certificatePEM, "certificate.pem")
            try write(old.keyPEM, "key.pem")
        }

        func path(_ name: String) -> String { "\(folder)/\(name)" }

        func write(_ text: String, _ name: String) throws {
            try text.write(toFile: path(name), atomically: true, encoding: .utf8)
        }

        var environment: [String: String] {
            [
                "SUBLEDGER_PUBLIC_TLS_CERTIFICATE": path("certificate.pem"),
                "SUBLEDGER_PUBLIC_TLS_KEY": path("key.pem"),
                "SUBLEDGER_PRIVATE_TLS_CERTIFICATE": path("certificate.pem"),
                "SUBLEDGER_PRIVATE_TLS_KEY": path("key.pem"),
            ]
        }

        /// Whether the listener presents the certificate.
        func shows(_ certificate: String, _ port: Int) throws -> Bool {
            try curl("--cacert", path(certificate), "https://127.0.0.1:\(port)/health/live").output
                == "{\"status\":\"ok\"}\n"
        }

        func end(_ server: ServerProcess) async throws {
            server.signal(SIGTERM)
            try await server.hasEnded()
            try FileManager.default.removeItem(atPath: folder)
        }
    }

    @Test("both listeners accept TLS 1.2 and 1.3 and reject TLS 1.1 and plain HTTP")
    func versions() async throws {
        let bench = try Bench()
        let server = try ServerProcess(dataFolder: bench.path("data"), environment: bench.environment)
        let ports = try await server.ports()

        for port in [ports.public, ports.private] {
            let url = "https://127.0.0.1:\(port)/health"
            let trusted = ["--cacert", bench.path("old.pem"), url]
            #expect(try Self.curl("--tlsv1.2", "--tls-max", "1.2", trusted[0], trusted[1], url).status == 0)
            #expect(try Self.curl("--tlsv1.3", trusted[0], trusted[1], url).status == 0)
            // The client would accept it at this security level, so the server rejects it.
            let outdated = try Self.curl(
                "--insecure", "--tlsv1.0", "--tls-max", "1.1", "--ciphers", "DEFAULT@SECLEVEL=0", url)
            #expect(outdated.status == 35)
            #expect(outdated.output.contains("alert protocol version"), "\(outdated.output)")
            #expect(try Self.curl("http://127.0.0.1:\(port)/health").status != 0)
            #expect(try !bench.shows("new.pem", port))
        }
        try await bench.end(server)
    }

    @Test("a replaced certificate is used without a restart, and an invalid one leaves the previous one in use")
    func replaced() async throws {
        let bench = try Bench()
        let server = try ServerProcess(dataFolder: bench.path("data"), environment: bench.environment)
        let ports = try await server.ports()
        #expect(try bench.shows("old.pem", ports.public))

        try bench.write("-----BEGIN CERTIFICATE-----\nbroken\n-----END CERTIFICATE-----\n", "certificate.pem")
        _ = try await eventually("the broken file is logged") {
            server.log.contains("certificate.pem is not a PEM certificate or cannot be read") ? true : nil
        }
        #expect(try bench.shows("old.pem", ports.public))

        try bench.write(bench.new.certificatePEM, "certificate.pem")
        _ = try await eventually("the key of another certificate is logged") {
            server.log.contains("key.pem is not the key of") ? true : nil
        }
        #expect(try bench.shows("old.pem", ports.private))

        try bench.write(bench.new.keyPEM, "key.pem")
        for port in [ports.public, ports.private] {
            _ = try await eventually("the new certificate is presented") {
                try bench.shows("new.pem", port) ? true : nil
            }
            #expect(try !bench.shows("old.pem", port))
        }

        let readAnew = "certificate reloaded"
        let before = server.log.components(separatedBy: readAnew).count
        server.signal(SIGHUP)
        _ = try await eventually("SIGHUP reloads both certificates") {
            server.log.components(separatedBy: readAnew).count == before + 2 ? true : nil
        }
        #expect(server.exitStatus == nil)
        #expect(!server.log.contains("PRIVATE KEY"))
        try await bench.end(server)
    }

    @Test("invalid TLS files are rejected at the start with one line that names the file")
    func refusedAtStart() throws {
        let bench = try Bench()
        try bench.write(bench.new.keyPEM, "other-key.pem")
        let certificate = bench.path("certificate.pem")
        let serve = [
            "serve", "--data-folder", bench.path("data"), "--public-port", "0", "--private-port", "0",
            "--public-tls-certificate", certificate,
        ]

        let alone = try ServerProcess.run(serve)
        let missing = try ServerProcess.run(serve + ["--public-tls-key", "/nowhere.pem"])
        let foreign = try ServerProcess.run(serve + ["--public-tls-key", bench.path("other-key.pem")])

        #expect(alone.error == "subledger: public TLS requires a certificate and its key: the key is missing\n")
        #expect(missing.error == "subledger: /nowhere.pem is not a PEM private key or cannot be read\n")
        #expect(foreign.error == "subledger: \(bench.path("other-key.pem")) is not the key of \(certificate)\n")
        #expect([alone, missing, foreign].map(\.status) == [78, 78, 78])
        try FileManager.default.removeItem(atPath: bench.folder)
    }
}
