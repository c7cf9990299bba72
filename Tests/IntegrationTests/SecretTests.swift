import AppStore
import TestSupport
import Testing

@Suite("Secrets and device ids appear only in requests")
struct SecretTests {
    @Test("no log line or answer contains the secret, a wrong guess, a receipt or a device id")
    func canaries() async throws {
        try await TestBundle.withServer { server in
            let guess = "canary-guess-5a5a5a"
            var wrong = V1Body()
            wrong["password"] = guess
            var answers = [
                try await server.apple.post(try TestBundle.sample("")).body,
                try await server.apple.post(try TestBundle.sample("")).body,
                try await server.apple.post(try wrong.bytes).body,
            ]
            answers.append(
                try await server.subscription("/subscriptions/1000000588791509?environment=sandbox").body)
            answers.append(try await server.backend.get("/events?app=\(V1Body.app)&environment=sandbox").body)
            answers.append(try await server.backend.get("/metrics").body)

            let seen = answers.joined(separator: "\n") + server.logs.text
            #expect(seen.contains("notification stored"))
            for canary in [
                V1Body.secret, guess, "TUlJVFZRWUpLb1pJaHZjTkFRY0NvSUlU", "3bf0388bbca73e22cbfbce8e7b5b4c8181047dbc",
                "D89BF8D6-3B46-4F1E-895A-1061ECD31178",
            ] {
                #expect(!seen.contains(canary), "\(canary) was seen")
            }
        }
    }

    @Test("the secret is not stored in the log")
    func notStored() async throws {
        try await TestBundle.withServer { server in
            _ = try await server.apple.post(try TestBundle.sample(""))

            let found = try await server.sql(
                """
                select position::text
                from subledger.event
                join subledger.event_body using (stream_id, position, received_at)
                where position('0123456789abcdef0123456789abcdef'::bytea in body) > 0
                  or facts::text like '%0123456789abcdef0123456789abcdef%'
                """)

            #expect(found.isEmpty)
        }
    }
}
