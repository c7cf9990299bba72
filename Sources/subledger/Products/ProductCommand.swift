import ArgumentParser
import Encoding
import Readers
import Server
import Subscriptions

struct ProductCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "product",
        abstract: "Configure products: their kind where Apple's data lacks it, and the entitlements they grant.",
        discussion: """
            Settings take effect without a restart, also for past purchases. A product without settings has the kind \
            that its transactions report and grants its own id as an entitlement.
            """,
        subcommands: [ProductSet.self, ProductList.self, ProductRemove.self, ProductImport.self])
}

struct ProductSet: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "set",
        abstract: "Set all properties of a product. Omitted ones are cleared.")

    @Argument(help: "The product's id in the App Store.")
    var productId: String

    @Option(help: ArgumentHelp("The app that sells it.", valueName: "bundle-id"))
    var app: String

    @Option(
        help: ArgumentHelp(
            "\(ConfiguredProduct.kinds.joined(separator: ", ")). [as reported by transactions]", valueName: "kind"))
    var kind: String?

    @Option(
        help: ArgumentHelp(
            "How long a purchase of a non-renewing product lasts: P3M, P1Y, P10D.", valueName: "duration"))
    var duration: String?

    @Option(
        help: ArgumentHelp(
            "The place of a plan among those of the app, from 1: a change to a higher one is an upgrade. [by price]",
            valueName: "number"))
    var level: Int?

    @Option(help: ArgumentHelp("What people call it, for the console. [its id]", valueName: "text"))
    var name: String?

    @Option(
        parsing: .upToNextOption,
        help: ArgumentHelp("The entitlements it grants, one or more. [its own id]", valueName: "name"))
    var entitlement: [String] = []

    @OptionGroup var database: DatabaseFlags

    private func product() throws(ConfiguredProduct.Malformed) -> ConfiguredProduct {
        try ConfiguredProduct(
            app: app, productId: productId, kind: kind, duration: duration, level: level, name: name,
            entitlements: entitlement)
    }

    func validate() throws {
        do { _ = try product() } catch { throw ValidationError("\(error)") }
    }

    func run() async throws {
        try await reportingFailures {
            let product = try product()
            try await database.withConnection(.products) { try await ProductTable.state([product], on: $0) }
            print(product.line)
        }
    }
}

struct ProductList: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List products, one per line: app, product id, kind, entitlements.")

    @Option(help: ArgumentHelp("Only products of this app. [all]", valueName: "bundle-id"))
    var app: String?

    @Flag(help: "Print one JSON object per line.")
    var json = false

    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            let products = try await database.withConnection(.reader) {
                try await ProductTable.products(of: app, on: $0)
            }
            for product in products { print(json ? product.jsonLine : product.line) }
        }
    }
}

struct ProductRemove: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: "Remove a product's settings. Exit status 65 if it has none.")

    @Argument(help: "The product's id in the App Store.")
    var productId: String

    @Option(help: ArgumentHelp("The app that sells it.", valueName: "bundle-id"))
    var app: String

    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            let isRemoved = try await database.withConnection(.products) {
                try await ProductTable.remove(productId, of: app, on: $0)
            }
            guard isRemoved else {
                printError("subledger: no settings for \(productId) of \(app): see `subledger product list`")
                throw ExitCode.dataError
            }
            print("\(app), \(productId): removed")
        }
    }
}

struct ProductImport: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Import product settings from a CSV file: all of them, or none if a line is invalid.",
        discussion: """
            The header line names the columns app, product_id, kind, duration, level, entitlements and name in any order; \
            the last five are optional. Entitlements are separated by spaces or semicolons. Each record sets all properties of \
            its product; products that are not in the file are unchanged. Exit status 65 if the file is invalid.
            """)

    @Argument(help: ArgumentHelp("The file; - reads standard input.", valueName: "file"))
    var file: String

    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            let products = try ProductFile.read(file)
            try await database.withConnection(.products) { try await ProductTable.state(products, on: $0) }
            print("products imported: \(products.count)")
        }
    }
}

extension ConfiguredProduct {
    fileprivate var line: String {
        let kind = [kind, duration, level.map { "level \($0)" }].compactMap { $0 }.joined(separator: " ")
        let given = givenEntitlements.joined(separator: ", ")
        return "\(app), \(productId)\(name.map { " (\($0))" } ?? ""): \(kind.isEmpty ? "" : "\(kind), ")grants \(given)"
    }

    fileprivate var jsonLine: String {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("app", app)
            writeMembers(to: &writer)
        }
        return writer.text
    }
}
