import Encoding
import Foundation
import Readers
import TestSupport
import Testing

@testable import subledger

@Suite("Exchange rates, commissions and taxes by command")
struct MoneyCommandTests {
    @Test("the commands import their files beside a running server, twice, and refuse a bad line")
    func beside() async throws {
        let folder = TestFolder.path("money")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        func run(_ command: String, _ input: String) throws -> (status: Int32, output: String, error: String) {
            try ServerProcess.run(
                [command, "import", "-", "--data-folder", folder, "--log-level", "error"], input: Data(input.utf8))
        }
        let server = try ServerProcess(dataFolder: folder)
        _ = try await server.ports()

        let rates = "Date,USD,BGN,\n2026-11-25,1.0487,N/A,\n2026-11-24,1.0475,1.9558,\n"
        for _ in 0..<2 {
            let imported = try run("rate", rates)
            #expect(
                imported.output == "exchange rates imported: 3, from 2026-11-24 to 2026-11-25\n", "\(imported.error)")
        }
        let commissions = try run(
            "commission",
            "store,kind,country,from,percent,later_percent\napple,subscription,,2020-01-01,30,15\n"
                + "google,subscription,US,2026-06-30,10,\n"
        )
        #expect(commissions.output == "commissions imported: 2\n", "\(commissions.error)")
        let taxes = try run("tax", "\u{FEFF}from,percent,country\r\n2020-01-01,19,DE\r\n")
        #expect(taxes.output == "tax rates imported: 1\n", "\(taxes.error)")
        let bad = try run("tax", "from,percent,country\n2020-01-01,19,DE\n2020-02-30,20,FR\n")
        #expect(bad.status == 65)
        #expect(bad.error == "subledger: -:3: from \"2020-02-30\": expected a day such as 2026-11-25\n")
        server.signal(SIGTERM)
        try await server.hasEnded()
    }

    struct Bad: CustomTestStringConvertible, Sendable {
        let kind: String
        let text: String
        let problem: String

        var testDescription: String { problem }
    }

    @Test(
        "a bad file is refused with the line and the reason",
        arguments: [
            Bad(
                kind: "rate", text: "",
                problem: "1: missing header line: expected Date and currencies, as in Date,USD,JPY"),
            Bad(
                kind: "rate", text: "Date,usd\n",
                problem: "1: \"usd\" is no currency: expected three capital letters other than EUR"),
            Bad(
                kind: "rate", text: "Date,EUR\n",
                problem: "1: \"EUR\" is no currency: expected three capital letters other than EUR"),
            Bad(kind: "rate", text: "Date,USD,USD\n", problem: "1: expected each currency once"),
            Bad(
                kind: "rate", text: "Date,USD\n2026-11-25,0.000\n",
                problem: "2: \"0.000\" is no rate of USD: expected a number above 0, or N/A"),
            Bad(
                kind: "rate", text: "Date,USD\n2026-11-25,1,2,3\n", problem: "2: 4 fields: expected 2, as in the header"
            ),
            Bad(
                kind: "rate", text: "Date,USD,JPY,GBP\n2026-11-25,1.0487,163.55,0.83\n2026-11-24,1.0",
                problem: "3: 2 fields: expected 4, as in the header"),
            Bad(
                kind: "rate", text: "Date,USD\n25/11/2026,1\n",
                problem: "2: \"25/11/2026\" is no day: expected 2026-11-25 or 25 November 2026"),
            Bad(
                kind: "rate", text: "Date,USD\n25 November 2026,1\n2026-11-25,1\n",
                problem: "3: duplicate day 2026-11-25, first on line 2"),
            Bad(
                kind: "commission", text: "store,kind,from,percent\napple,subscription,2020-01-01,100\n",
                problem: "2: percent \"100\": expected a number from 0 to below 100, such as 15 or 17.5"),
            Bad(
                kind: "commission", text: "store,kind,from,percent\namazon,subscription,2020-01-01,30\n",
                problem: "2: store \"amazon\": expected apple or google"),
            Bad(
                kind: "commission", text: "store,kind,from,to,percent\n",
                problem: "1: unknown column \"to\": expected store, kind, from, percent, country, later_percent"),
            Bad(
                kind: "commission",
                text: "store,kind,from,percent\napple,one_time,2020-01-01,30\napple,one_time,2020-01-01,15\n",
                problem: "3: the same as line 2: apple, one_time, 2020-01-01"),
            Bad(
                kind: "tax", text: "from,percent,country\n2020-01-01,-1,DEU\n",
                problem: "2: percent \"-1\": expected a number from 0 to below 1000, such as 15 or 17.5"),
            Bad(
                kind: "tax", text: "from,percent,country\n2020-01-01,7,Germany\n",
                problem: "2: country \"Germany\": expected two or three capital letters, or nothing for all others"),
        ])
    func bad(_ bad: Bad) {
        let error = #expect(throws: CSVRecords.Malformed.self) {
            let records = try CSVRecords.read(Array(bad.text.utf8))
            switch bad.kind {
            case "rate": _ = try RateFile.rates(records)
            case "commission": _ = try CommissionFile.commissions(records)
            default: _ = try TaxFile.rates(records)
            }
        }
        #expect(error.map { "\($0.line): \($0.problem)" } == bad.problem)
    }

    @Test("both files of the European Central Bank are read, and what is packed is named")
    func files() throws {
        let daily = try RateFile.rates(
            CSVRecords.read(Array("Date, USD, JPY, \n25 November 2026, 1.0487, 163.55, \n".utf8)))
        #expect(
            daily == [
                ExchangeRate(currency: "USD", day: "2026-11-25", perEuro: "1.0487"),
                ExchangeRate(currency: "JPY", day: "2026-11-25", perEuro: "163.55"),
            ])
        let path = TestFolder.path("packed")
        defer { try? FileManager.default.removeItem(atPath: path) }
        for (bytes, problem) in [
            ([0x50, 0x4B, 0x03, 0x04], "is a ZIP archive: unpack it first"),
            ([0x1F, 0x8B], "is compressed by gzip: unpack it first"),
            ([0xFF, 0xFE, 0x44, 0x00], "is UTF-16: save it as UTF-8"),
        ] as [([UInt8], String)] {
            try Data(bytes).write(to: URL(fileURLWithPath: path))
            let error = #expect(throws: CSVFile.Malformed.self) { _ = try CSVFile.read(path, RateFile.rates) }
            #expect(error?.description == "\(path): \(problem)")
        }
    }
}
