import Testing

@testable import Postgres

extension WithServer {
    @Suite("A session that listens is opened in the background, one at a time")
    struct ChannelListenerTests {
        private static func listening(_ channel: ChannelListener) async throws -> PostgresConnection {
            guard case .listening(let connection) = await channel.session() else { throw NeverHappened() }
            return connection
        }

        @Test("notifications arrive at the session that is returned")
        func listens() async throws {
            let channel = ChannelListener(try TestServer.configuration(), channel: "here")
            let session = try await Self.listening(channel)
            let other = try await TestServer.connect()

            try await other.script("notify here, 'now'", deadline: soon())

            #expect(try await session.notifications(until: soon()).map(\.payload) == ["now"])
            await session.close()
            await other.close()
        }

        @Test("while a session of any process is about to listen, no other one tries")
        func oneAtATime() async throws {
            let stuck = try await TestServer.connect()
            try await stuck.script("set application_name = '\(ChannelListener.mark)'", deadline: soon())
            let channel = ChannelListener(try TestServer.configuration(), channel: "there")

            guard case .failed(let error) = await channel.session() else { throw NeverHappened() }
            #expect(error.kind == .deadlineExceeded)
            // The next one is not due yet, so nobody waits.
            let start = ContinuousClock.now
            guard case .pending = await channel.session() else { throw NeverHappened() }
            #expect(ContinuousClock.now - start < .seconds(1))
            let listening = try await stuck.query(
                Statement("test_listening", "select count(*) from pg_stat_activity where query ilike 'listen%'"),
                deadline: soon())[0].value(Int64.self, at: 0)
            #expect(listening == 0)

            await stuck.close()
            var session: PostgresConnection?
            try await eventually {
                if case .listening(let connection) = await channel.session() { session = connection }
                return session != nil
            }
            await session?.close()
        }

        @Test("a session that listens is not about to listen any more")
        func mark() async throws {
            let first = try await Self.listening(ChannelListener(try TestServer.configuration(), channel: "a"))
            let second = try await Self.listening(ChannelListener(try TestServer.configuration(), channel: "a"))

            await first.close()
            await second.close()
        }
    }
}
