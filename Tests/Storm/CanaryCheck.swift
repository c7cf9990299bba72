import Foundation
import Postgres
import TestSupport

/// Checks that no secret, account token or part of a body leaks into logs and metrics.
struct CanaryCheck {
    let run: StormRun

    func metrics() async throws {
        for server in run.servers {
            guard let port = server.ports?.private else { continue }
            let text = try await HTTPClient(port: port).get("/metrics").body
            if text.isEmpty { run.report.problem("\(server.name) has no metrics") }
            try await inspect([text], "the metrics of \(server.name)")
        }
    }

    func logs() async throws {
        for server in run.servers {
            let logs = server.logs
            let bytes = logs.reduce(0) { $0 + $1.utf8.count }
            run.report.log("\(server.name): \(server.starts) starts, \(bytes) bytes of log")
            try await inspect(logs, "the log of \(server.name)")
        }
        try await inspect([run.database.log], "the log of PostgreSQL")
    }

    private func inspect(_ texts: [String], _ place: String) async throws {
        let tokens = try await tokens()
        if tokens.isEmpty { run.report.problem("no appAccountToken was stored, so the check for leaks is void") }
        for text in texts {
            for line in text.split(separator: "\n") where line.contains(Canary.mark) {
                run.report.problem("\(place) contains a canary: \(line)")
            }
            // One pass over each text for any number of tokens.
            for match in text.matches(of: /[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}/)
            where tokens.contains(match.output.lowercased()) {
                run.report.problem("\(place) contains an appAccountToken: \(match.output)")
            }
        }
    }

    private func tokens() async throws -> Set<String> {
        let rows = try await run.database.rows(
            Statement(
                "storm_tokens",
                """
                select distinct lower(app_account_token)
                from subledger.transaction
                where app_account_token is not null
                """))
        return Set(try rows.map { try $0.value(at: 0) })
    }
}
