import ArgumentParser
import EventLog
import Server

struct Sizes: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Print what each table takes on the disk, in all and for each event.",
        discussion: """
            A line for each table, the largest first: its name, its rows, the bytes of rows and of indexes, and both \
            divided by the number of events. The last line is the sum. Rows are estimates of PostgreSQL, and a dash \
            before its first look at the table. Changes nothing and may run beside a server, on a standby too.
            """)

    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            let (events, tables) = try await database.withConnection(.reader) { try await TableSize.all(on: $0) }
            print("table\trows\tbytes\tindexBytes\trowsPerEvent\tbytesPerEvent\tindexBytesPerEvent")
            for table in tables {
                print(line(table.table, table.rows, table.bytes, table.indexBytes, events: events))
            }
            print(
                line(
                    "all", nil, tables.reduce(0) { $0 + $1.bytes }, tables.reduce(0) { $0 + $1.indexBytes },
                    events: events))
        }
    }

    private func line(_ name: String, _ rows: Int64?, _ bytes: Int64, _ indexBytes: Int64, events: Int64) -> String {
        func perEvent(_ number: Int64) -> String { events > 0 ? String(number / events) : "-" }
        let share = rows.flatMap { rows -> String? in
            events > 0 ? "\(rows / events).\(String(rows % events * 100 / events + 100).dropFirst())" : nil
        }
        return [
            name, rows.map { String($0) } ?? "-", String(bytes), String(indexBytes), share ?? "-", perEvent(bytes),
            perEvent(indexBytes),
        ].joined(separator: "\t")
    }
}
