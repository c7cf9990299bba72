import Postgres
import Testing

@testable import EventLog

@Suite("Classification of append errors")
struct AppendErrorTests {
    @Test(
        "a fault of the database is reported as unavailable, so that the event is sent again",
        arguments: ["58P01", "58030", "XX000", "XX001", "XX002", "54000", "55P03", "57014", "53100", "57P01"])
    func unavailable(sqlstate: String) {
        #expect(AppendError(PostgresError(.server(sqlstate: sqlstate))) == .unavailable)
    }

    @Test("an error caused by the event itself is reported as refused", arguments: ["23505", "22P05", "42501"])
    func refused(sqlstate: String) {
        #expect(AppendError(PostgresError(.server(sqlstate: sqlstate))) == .refused(sqlstate: sqlstate))
    }
}
