import ArgumentParser
import Readers
import Server

struct RateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rate", abstract: "Import exchange rates, by which figures are given in one currency.",
        subcommands: [RateImport.self])
}

struct RateImport: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Import exchange rates from a CSV file: all of them, or none if a line is invalid.",
        discussion: """
            The file is one of the European Central Bank's reference rates, as it is once unpacked: a header line with \
            Date and currencies, and the units of each currency for one euro by day. Rates of days that are not in the \
            file stay. Exit status 65 if the file is invalid.
            """)

    @Argument(help: ArgumentHelp("The file; - reads standard input.", valueName: "file"))
    var file: String

    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            let rates = try CSVFile.read(file, RateFile.rates)
            try await database.withConnection(.products) { try await MoneyTables.state(rates, on: $0) }
            let days = rates.map(\.day)
            let span = days.min().map { ", from \($0) to \(days.max() ?? $0)" } ?? ""
            print("exchange rates imported: \(rates.count)\(span)")
        }
    }
}

struct CommissionCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "commission", abstract: "Import the stores' shares, by which proceeds are estimated.",
        subcommands: [CommissionImport.self])
}

struct CommissionImport: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Replace the stores' shares by those in a CSV file; nothing changes if a line is invalid.",
        discussion: """
            The header line names the columns store (apple or google), kind (subscription or one_time), from (a day), \
            percent, country and later_percent in any order; the last two are optional. A line counts from its day on \
            until the next one of its store, kind and country. Without country it counts for all countries, until the \
            day of a line of their own. later_percent is the share once a subscription was paid for a year. Exit status \
            65 if the file is invalid.
            """)

    @Argument(help: ArgumentHelp("The file; - reads standard input.", valueName: "file"))
    var file: String

    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            let commissions = try CSVFile.read(file, CommissionFile.commissions)
            try await database.withConnection(.products) { try await MoneyTables.replace(commissions, on: $0) }
            print("commissions imported: \(commissions.count)")
        }
    }
}

struct TaxCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tax", abstract: "Import the taxes in prices, by which proceeds are estimated.",
        subcommands: [TaxImport.self])
}

struct TaxImport: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Replace the taxes in prices by those in a CSV file; nothing changes if a line is invalid.",
        discussion: """
            The header line names the columns from (a day), percent and country in any order; country is optional. A line \
            counts from its day on until the next one of its country. Without country it counts for all countries, until \
            the day of a line of their own. Exit status 65 if the file is invalid.
            """)

    @Argument(help: ArgumentHelp("The file; - reads standard input.", valueName: "file"))
    var file: String

    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            let rates = try CSVFile.read(file, TaxFile.rates)
            try await database.withConnection(.products) { try await MoneyTables.replace(rates, on: $0) }
            print("tax rates imported: \(rates.count)")
        }
    }
}
