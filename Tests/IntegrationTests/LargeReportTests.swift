import Foundation
import Postgres
import Readers
import TestSupport
import Testing

@testable import subledger

@Suite("A large report takes little memory, and is imported as a whole or not at all")
struct LargeReportTests {
    private struct Ledger {
        let database: SharedDatabase
        let folder: String

        /// - Parameter kilobytes: Most memory of the program; nil for any.
        func importing(_ path: String, kilobytes: Int? = nil) throws -> (status: Int32, output: String, error: String) {
            let limit = kilobytes.map { "ulimit -d \($0) && " } ?? ""
            let result = try Process.run(
                command: ["sh", "-c", limit + "exec \"$0\" report import \"$1\"", ServerProcess.executable.path, path],
                environment: ProcessInfo.processInfo.environment.merging(database.environment()) { $1 }, limit: 240)
            return (result.status, result.outputText, result.errorText)
        }

        func write(_ content: some Sequence<UInt8>, _ name: String) throws -> String {
            let path = "\(folder)/\(name)"
            try Data(content).write(to: URL(fileURLWithPath: path))
            return path
        }

        func gzip(_ path: String) throws -> [UInt8] {
            let packed = try Process.run(command: ["gzip", "--no-name", "--stdout", path])
            #expect(packed.status == 0)
            return Array(packed.output)
        }

        /// Reports, and their rows.
        func stored() async throws -> [String] {
            try await database.lines(
                """
                select count(*)::text
                from subledger.store_report
                union all
                select count(*)::text
                from subledger.store_report_row
                """)
        }
    }

    private func withLedger(_ test: (Ledger) async throws -> Void) async throws {
        let database = try await SharedDatabase.make()
        let folder = TestFolder.path("large-reports")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try await test(Ledger(database: database, folder: folder))
        try? FileManager.default.removeItem(atPath: folder)
        try await database.drop()
    }

    /// A Subscription Event report of January.
    private static func events(_ count: Int) -> [UInt8] {
        var text = Array("Event Date\tEvent\tApp Name\tSubscription Apple ID\tCountry\tQuantity\n".utf8)
        for number in 0..<count {
            let day = number % 31 + 1
            text += Array(
                "2026-01-\(day < 10 ? "0" : "")\(day)\tRenew\tExample \(number)\t\(number % 500)\tDE\t\(number % 7 + 1)\n"
                    .utf8)
        }
        return text
    }

    /// How many of 200,000 such rows are stored, and how many are stored differently.
    private static func stored(_ database: SharedDatabase) async throws -> [String] {
        try await database.lines(
            """
            select count(*)::text
            from subledger.store_report_row
            union all
            select count(*)::text
            from (
              select line, day, event, apple_id, country, units, fields
              from subledger.store_report_row
              except
              select
                number + 2, date '2026-01-01' + number % 31, 'Renew', (number % 500)::text, 'DEU', number % 7 + 1,
                jsonb_build_object(
                  'event date', (date '2026-01-01' + number % 31)::text, 'event', 'Renew', 'app name', 'Example ' || number,
                  'subscription apple id', (number % 500)::text, 'country', 'DE', 'quantity', (number % 7 + 1)::text
                )
              from generate_series(0, 199999) as number
            ) as different
            """)
    }

    @Test("200,000 rows are imported with 150 MB, and have the same content in pieces of another size")
    func memory() async throws {
        try await withLedger { ledger in
            let name = "Subscription_Event_85000000_202601"
            let path = try ledger.write(Self.events(200_000), "\(name).txt")
            let imported = try ledger.importing(path, kilobytes: 150_000)
            #expect(
                imported.output
                    == "apple_subscription_event \(name), 2026-01-01 to 2026-01-31: 200000 rows imported\n",
                "\(imported.error)")
            #expect(try await Self.stored(ledger.database) == ["200000", "0"])

            try await withLedger { other in
                let packed = try other.write(try ledger.gzip(path), "\(name).txt.gz")
                let connection = try await TestCluster.connect(
                    other.database.configuration.with(role: "subledger_products"))
                let file = try ReportFile(packed, pieceBytes: 4099)
                let outcome = try await file.add(batchRows: 777, on: connection)
                await connection.close()
                #expect(outcome == .added(replaces: false))
                #expect(try await Self.stored(other.database) == ["200000", "0"])
            }
        }
    }

    @Test("a file that is damaged leaves nothing behind, wherever it is damaged")
    func damaged() async throws {
        try await withLedger { ledger in
            let text = Self.events(5000)
            let plain = try ledger.write(text, "Subscription_Event_85000000_202601.txt")
            let gzip = try ledger.gzip(plain)
            let archive = Self.archive(gzip)
            // With another byte in the middle.
            func damaged(_ bytes: [UInt8]) -> [UInt8] {
                var bytes = bytes
                bytes[bytes.count / 2] ^= 0x55
                return bytes
            }
            let header = "Start Date\tEnd Date\tVendor Identifier\tQuantity\tPartner Share\tExtended Partner Share\t"
            let row = "12/01/2025\t12/27/2025\tpro\t1\t1\t1\tEUR\t9.99\tEUR\n"
            let financial =
                header + "Partner Share Currency\tCustomer Price\tCustomer Currency\n"
                + String(repeating: row, count: 5000)
            let files: [(name: String, content: [UInt8], problem: String)] = [
                ("cut.txt", text.dropLast(5), ":5001: 5 fields: expected 6, as in the header; the file may be cut off"),
                ("cut.txt.gz", gzip.dropLast(gzip.count / 3), ": is damaged or cut off: gzip cannot unpack it"),
                ("end.txt.gz", gzip.dropLast(1), ": is damaged or cut off: gzip cannot unpack it"),
                ("byte.txt.gz", damaged(gzip), ": is damaged or cut off: gzip cannot unpack it"),
                ("cut.zip", archive.dropLast(archive.count / 3), ": is damaged or cut off: the ZIP archive has no end"),
                ("byte.zip", damaged(archive), ": is damaged or cut off: gzip cannot unpack it"),
                (
                    "total.txt", Array((financial + "Total_Rows\t4999\n").utf8),
                    ":5002: Total_Rows is 4999, and the rows before it give 5000: is a part missing?"
                ),
                ("none.txt", Array(financial.utf8), ":5001: no Total_Rows follows: the file may be cut off"),
            ]
            for file in files {
                let path = try ledger.write(file.content, file.name)
                let imported = try ledger.importing(path)
                #expect(imported.status == 65 && imported.output.isEmpty, "\(file.name): \(imported.output)")
                #expect(imported.error.contains(path + file.problem), "\(imported.error)")
                #expect(try await ledger.stored() == ["0", "0"], "\(file.name)")
            }

            let whole = try ledger.write(archive, "Subscription_Event_85000000_202601.zip")
            #expect(try ledger.importing(whole).output.hasSuffix(": 5000 rows imported\n"))
            #expect(try ledger.importing(whole).output.hasSuffix(": imported before\n"))
            #expect(try await ledger.stored() == ["1", "5000"])
        }
    }

    /// A ZIP archive with the content of a gzip file without a name.
    private static func archive(_ gzip: [UInt8]) -> [UInt8] {
        func number(_ number: Int, _ count: Int) -> [UInt8] {
            (0..<count).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
        }
        let data = gzip.dropFirst(10).dropLast(8)
        let sums = gzip.suffix(8)
        // Version, flags, method, time and date; checksum, both lengths; length of the name, and of what follows it.
        var entry = number(20, 2) + number(0, 2) + number(8, 2) + number(0, 4)
        entry += sums.prefix(4)
        entry += number(data.count, 4)
        entry += sums.suffix(4)
        entry += number(1, 2) + number(0, 2)
        let name: [UInt8] = [0x61]
        var archive = number(0x0403_4B50, 4) + entry + name
        archive += data
        let centralStart = archive.count
        archive += number(0x0201_4B50, 4) + number(20, 2) + entry
        archive += number(0, 14) + name
        let centralBytes = archive.count - centralStart
        archive += number(0x0605_4B50, 4) + number(0, 4) + number(1, 2) + number(1, 2)
        archive += number(centralBytes, 4) + number(centralStart, 4) + number(0, 2)
        return archive
    }
}
