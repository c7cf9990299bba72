import Encoding
import Foundation
import Subscriptions

/// A CSV file of products: a header line with app, product_id and optionally kind, duration, level, entitlements and
/// name, in any order; then one product per record. Entitlements are separated by spaces or semicolons.
enum ProductFile {
    /// - Parameter name: A path, or - for standard input.
    static func read(_ name: String) throws(CSVFile.Malformed) -> [ConfiguredProduct] {
        try CSVFile.read(name, products)
    }

    static func products(_ records: [CSVRecords.Record]) throws(CSVRecords.Malformed) -> [ConfiguredProduct] {
        let columns = try CSVColumns(
            records.first, required: ["app", "product_id"],
            optional: ["kind", "duration", "level", "entitlements", "name"])
        var lines: [[ByteString]: Int] = [:]
        var products: [ConfiguredProduct] = []
        for record in records.dropFirst() {
            let product = try product(record, try columns.fields(record))
            let key = [ByteString(product.app), ByteString(product.productId)]
            if let first = lines.updateValue(record.line, forKey: key) {
                throw CSVRecords.Malformed(
                    line: record.line,
                    problem: "duplicate product \(product.productId) of \(product.app), first on line \(first)")
            }
            products.append(product)
        }
        return products
    }

    private static func product(
        _ record: CSVRecords.Record, _ field: (String) -> String
    ) throws(CSVRecords.Malformed) -> ConfiguredProduct {
        func optional(_ name: String) -> String? { field(name).isEmpty ? nil : field(name) }
        let level = optional("level")
        guard level.map({ Int($0) != nil }) ?? true else {
            throw CSVRecords.Malformed(line: record.line, problem: "level must be an integer")
        }
        do throws(ConfiguredProduct.Malformed) {
            return try ConfiguredProduct(
                app: field("app"), productId: field("product_id"), kind: optional("kind"),
                duration: optional("duration"), level: level.flatMap { Int($0) },
                name: optional("name"),
                entitlements: field("entitlements").split { $0 == ";" || $0.isWhitespace }.map(String.init))
        } catch {
            throw CSVRecords.Malformed(line: record.line, problem: error.description)
        }
    }
}
