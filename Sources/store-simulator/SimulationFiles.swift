import Encoding
import Foundation
import Server
import Simulation

/// Writes the files of `store-simulator`: deliveries, links, receipts, expected answers and figures as one JSON object per
/// line, and products as CSV.
enum SimulationFiles {
    /// `{"receivedAt":…,"signedDate":…,"story":…,"body":{…}}`, as `fold` reads it.
    static func writeDeliveries(of simulation: Simulation, to name: String) throws {
        var file = try OutputFile(name)
        for delivery in simulation.deliveries {
            var writer = JSONWriter()
            writer.object { writer in
                writer.member("receivedAt", delivery.receivedAt)
                writer.member("signedDate", delivery.signedDate)
                writer.member("story", delivery.story.name)
                writer.key("body")
                writer.value(rawJSON: delivery.body())
            }
            try file.write(line: writer.bytes)
        }
        try file.flush()
    }

    /// Two files for each day and one for each month of the App Store, and some for each month of Google Play.
    ///
    /// - Parameter acknowledged: When a server acknowledged purchases, by the number of the story and by purchase token.
    static func writeReports(
        of simulation: Simulation?, _ google: PlaySimulation?, acknowledged: [Int: [String: Instant]] = [:],
        settling: ReportSettling, to folder: String
    ) throws {
        do {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        } catch {
            throw SettingError(description: "\(folder) cannot be made")
        }
        var files: [(name: String, content: String)] = []
        if let simulation {
            var reports = SalesReports(simulation)
            files += reports.financeFiles(settling)
            settling.delay(&reports.entries, \.at)
            files += reports.files + SubscriptionReports(simulation).files
        }
        if let google {
            var reports = PlayReports(google, acknowledged: acknowledged)
            settling.delay(&reports.entries, \.at)
            files += reports.files
        }
        for file in files {
            try OutputFile.write(file.content, to: "\(folder)/\(file.name)")
        }
    }

    /// `{"backendCustomerId":…,"links":[…],"statedAt":…,"story":…}`, in the order of sending.
    static func writeLinks(of simulation: Simulation, to name: String) throws {
        var file = try OutputFile(name)
        for step in simulation.statements {
            var writer = JSONWriter()
            writer.object { writer in
                writer.member("backendCustomerId", step.statement.backendCustomerId)
                step.statement.writeLinks(simulation.settings.format, to: &writer)
                writer.member("statedAt", step.statement.sentAt)
                writer.member("story", step.story.name)
            }
            try file.write(line: writer.bytes)
        }
        try file.flush()
    }

    /// `{"at":…,"receipt":…,"occasion":…,"originalTransactionId":…,"appAccountToken":…,"backendCustomerId":…,
    /// "story":…}`, in the order of time. The receipt is base64.
    static func writeReceipts(of simulation: Simulation, to name: String) throws {
        var file = try OutputFile(name)
        for handIn in simulation.handIns {
            var writer = JSONWriter()
            writer.object { writer in
                writer.member("at", handIn.at)
                writer.member("receipt", Base64.text(handIn.receipt))
                writer.member("occasion", handIn.occasion.rawValue)
                writer.member("originalTransactionId", handIn.originalTransactionId)
                writer.member("appAccountToken", handIn.appAccountToken)
                writer.member("backendCustomerId", handIn.backendCustomerId)
                writer.member("story", handIn.account.story.name)
            }
            try file.write(line: writer.bytes)
        }
        try file.flush()
    }

    /// All products of the app in each store, as CSV for `product import`.
    static func writeProducts(of simulation: Simulation?, _ google: PlaySimulation?, to name: String) throws {
        var lines = ["app,product_id,kind,duration,entitlements"]
        func add(_ products: [Product], of app: String) {
            for product in products {
                let entitlements = product.configuredEntitlements.joined(separator: " ")
                lines.append([app, product.id, product.kind.word, "", entitlements].joined(separator: ","))
            }
        }
        if let app = simulation?.settings.app.bundleId { add(Product.all(of: app), of: app) }
        if let google { add(google.products, of: google.packageName) }
        try OutputFile.write(lines.joined(separator: "\n") + "\n", to: name)
    }

    /// `{"figure":"movements 2025-03-01 com.example.app.plus.monthly starts","value":3}`, assuming that every
    /// notification and link statement is delivered.
    ///
    /// - Parameter acknowledged: When a server acknowledged purchases, by the number of the story and by purchase token.
    static func writeFigures(
        of simulation: Simulation?, _ google: PlaySimulation?, acknowledged: [Int: [String: Instant]] = [:],
        to name: String
    ) throws {
        var file = try OutputFile(name)
        let apple = simulation?.figures.values ?? [:]
        let all = apple.merging(google?.figures(acknowledged: acknowledged).values ?? [:]) { $0 + $1 }
        for (figure, value) in all.sorted(by: { $0.key < $1.key }) {
            var writer = JSONWriter()
            writer.object { writer in
                writer.member("figure", figure)
                writer.member("value", value)
            }
            try file.write(line: writer.bytes)
        }
        try file.flush()
    }

    /// For each subscription `{"app":…,"environment":…,"originalTransactionId":…,"at":…,"active":…,"story":…}`, and for
    /// each id of a customer `{"app":…,"environment":…,"customerId":…,"as":…,"entitlement":…,"at":…,"active":…,
    /// "until":…,"story":…}`. `as` is what the id is, see ``SimulatedId/Kind``. `until` is the end of the access at `at`,
    /// null if it has no end, absent if not active. If a notification is never delivered, `"incomplete":true` is added.
    ///
    /// - Parameter acknowledged: When a server acknowledged purchases, by the number of the story and by purchase token.
    static func writeAnswers(
        of simulation: Simulation?, _ google: PlaySimulation?, acknowledged: [Int: [String: Instant]] = [:],
        to name: String
    ) throws {
        var file = try OutputFile(name)
        if let simulation { try writeAnswers(of: simulation, google, to: &file) }
        if let google { try PlayFiles.writeAnswers(of: google, acknowledged: acknowledged, to: &file) }
        try file.flush()
    }

    private static func writeAnswers(
        of simulation: Simulation, _ google: PlaySimulation?, to file: inout OutputFile
    ) throws {
        for index in 0..<simulation.settings.subscriptions {
            for answer in simulation.answers(ofStory: index) {
                try file.write(line: line(answer, simulation.settings.app))
            }
            // A customer of both stores has one statement, which is Google Play's.
            guard google?.joinedAccountId(ofStory: index) == nil else { continue }
            for answer in simulation.customerAnswers(ofStory: index) {
                for entitlement in answer.entitlements {
                    try file.write(line: line(entitlement, of: answer, simulation.settings.app))
                }
            }
        }
    }

    private static func line(_ answer: Answer, _ app: SimulatedApp) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("app", app.bundleId)
            writer.member("environment", app.environment.rawValue)
            writer.member("originalTransactionId", answer.originalTransactionId)
            writer.member("at", answer.at)
            writer.member("active", answer.active)
            writer.member("story", answer.story.name)
            if answer.isIncomplete { writer.member("incomplete", true) }
        }
        return writer.bytes
    }

    private static func line(
        _ entitlement: CustomerAnswer.Entitlement, of answer: CustomerAnswer, _ app: SimulatedApp
    ) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("app", app.bundleId)
            writer.member("environment", app.environment.rawValue)
            writer.member("customerId", answer.customer.text)
            writer.member("as", answer.customer.kind.rawValue)
            writer.member("entitlement", entitlement.name)
            writer.member("at", answer.at)
            writer.member("active", entitlement.active)
            if let until = entitlement.until {
                writer.member("until", until)
            } else if entitlement.active {
                writer.key("until")
                writer.value(rawJSON: "null")
            }
            writer.member("story", answer.story.name)
            if answer.isIncomplete { writer.member("incomplete", true) }
        }
        return writer.bytes
    }
}

extension Product.Kind {
    /// The kind's name in product files.
    var word: String {
        switch self {
        case .autoRenewable: "auto-renewable"
        case .nonConsumable: "non-consumable"
        case .consumable: "consumable"
        }
    }
}
