@testable import Postgres

extension TableRows {
    /// Appends a row with a value of every type; the number distinguishes it from other rows.
    mutating func appendSample(_ number: Int32) {
        beginRow()
        append("tä")
        append(utf8: Array("u".utf8))
        append(json: Array("{\"a\":1}".utf8))
        append(true)
        append(number)
        append(Int64.min)
        append(Timestamptz(microsecondsSinceUnixEpoch: 1_577_836_800_000_001))
        append([1, -2])
    }
}
