import Postgres
import Testing

@testable import EventLog

@Suite("An event that the database could not store is sent again")
struct AppendErrorTests {
    @Test(
        "a fault of the database is its unavailability, not a refusal of the event",
        arguments: ["58P01", "58030", "XX000", "XX001", "XX002", "54000", "55P03", "57014", "53100", "57P01"])
    func unavailable(sqlstate: String) {
        #expect(AppendError(PostgresError(.server(sqlstate: sqlstate))) == .unavailable)
    }

    @Test("what the event itself breaks is refused", arguments: ["23505", "22P05", "42501"])
    func refused(sqlstate: String) {
        #expect(AppendError(PostgresError(.server(sqlstate: sqlstate))) == .refused(sqlstate: sqlstate))
    }
}
