import ArgumentParser
import Projector
import Subscriptions

struct ProductCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "product",
        abstract: "Say of what kind products are, where Apple does not, and what they entitle to.",
        discussion: """
            What is stated takes effect by itself, for the past too. A product that nothing is said of is what its \
            transactions say, and entitles to its own id.
            """,
        subcommands: [ProductSet.self, ProductList.self, ProductRemove.self, ProductImport.self])
}

struct ProductSet: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "set",
        abstract: "State a product as a whole: what is left out here is no longer said of it.")

    @Argument(help: "The product's id in the App Store.")
    var productId: String

    @Option(help: ArgumentHelp("The app that sells it.", valueName: "bundle-id"))
    var app: String

    @Option(
        help: ArgumentHelp(
            "\(ConfiguredProduct.kinds.joined(separator: ", ")). [as the transactions say]", valueName: "kind"))
    var kind: String?

    @Option(
        help: ArgumentHelp(
            "How long one purchase of a non-renewing product lasts: P3M, P1Y, P10D.", valueName: "duration"))
    var duration: String?

    @Option(
        parsing: .upToNextOption,
        help: ArgumentHelp("What it entitles to, one or more. [its own id]", valueName: "name"))
    var entitlement: [String] = []

    @OptionGroup var database: DatabaseFlags

    private func product() throws(ConfiguredProduct.Malformed) -> ConfiguredProduct {
        try ConfiguredProduct(
            app: app, productId: productId, kind: kind, duration: duration, entitlements: entitlement)
    }

    func validate() throws {
        do { _ = try product() } catch { throw ValidationError("\(error)") }
    }

    func run() async throws {
        try await reportingFailures {
            let product = try product()
            let settings = Settings(flags: database.values)
            try await Database.withExisting(settings, logger: try settings.logger()) { database in
                try await database.withConnection(.products) { try await ProductTable.state([product], on: $0) }
            }
            print(product.line)
        }
    }
}

struct ProductList: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "One line a product: app, product, kind, what it entitles to.")

    @Option(help: ArgumentHelp("Only this app's. [all]", valueName: "bundle-id"))
    var app: String?

    @Flag(help: "One JSON object a line.")
    var json = false

    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            let settings = Settings(flags: database.values)
            try await Database.withExisting(settings, logger: try settings.logger()) { database in
                let products = try await database.withConnection(.reader) {
                    try await ProductTable.products(of: app, on: $0)
                }
                for product in products { print(json ? product.jsonLine : product.line) }
            }
        }
    }
}

struct ProductRemove: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: "Say nothing more of a product. Exit status 65 if nothing was said of it.")

    @Argument(help: "The product's id in the App Store.")
    var productId: String

    @Option(help: ArgumentHelp("The app that sells it.", valueName: "bundle-id"))
    var app: String

    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            let settings = Settings(flags: database.values)
            let isRemoved = try await Database.withExisting(settings, logger: try settings.logger()) { database in
                try await database.withConnection(.products) {
                    try await ProductTable.remove(productId, of: app, on: $0)
                }
            }
            guard isRemoved else {
                printError("subledger: nothing is said of \(productId) of \(app): see `subledger product list`")
                throw ExitCode.dataError
            }
            print("\(app), \(productId): removed")
        }
    }
}

struct ProductImport: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "State all products of a CSV file, or none of them if a line is bad.",
        discussion: """
            The header line names the columns: app, product_id, kind, duration, entitlements, in any order; the last \
            three may be missing or empty. Entitlements have spaces or semicolons between them. Each line states a \
            product as a whole; products that are not in the file stay as they are. Exit status 65 if the file cannot \
            be used.
            """)

    @Argument(help: ArgumentHelp("The file; - is standard input.", valueName: "file"))
    var file: String

    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            let products = try ProductFile.read(file)
            let settings = Settings(flags: database.values)
            try await Database.withExisting(settings, logger: try settings.logger()) { database in
                try await database.withConnection(.products) { try await ProductTable.state(products, on: $0) }
            }
            print("products stated: \(products.count)")
        }
    }
}

extension ConfiguredProduct {
    fileprivate var line: String {
        let kind = [kind, duration].compactMap { $0 }.joined(separator: " ")
        let given = givenEntitlements.joined(separator: ", ")
        return "\(app), \(productId): \(kind.isEmpty ? "" : "\(kind), ")entitles to \(given)"
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
