import Foundation
import Subscriptions

/// A CSV file of products: a header line with app, product_id and as many of kind, duration and entitlements as are
/// wanted, in any order; then one product a line. Entitlements have spaces or semicolons between them.
enum ProductFile {
    /// A file that cannot be used, in one line that names it, and the line in it.
    struct Malformed: Error, CustomStringConvertible {
        let description: String
    }

    /// - Parameter name: A path, or - for standard input.
    static func read(_ name: String) throws(Malformed) -> [ConfiguredProduct] {
        guard let bytes = InputFile.read(name) else {
            throw Malformed(description: "\(name): \(InputFile.unreadable)")
        }
        do throws(CSVRecords.Malformed) {
            return try products(bytes)
        } catch {
            throw Malformed(description: "\(name):\(error.line): \(error.problem)")
        }
    }

    static func products(_ bytes: [UInt8]) throws(CSVRecords.Malformed) -> [ConfiguredProduct] {
        let records = try CSVRecords.read(bytes)
        guard let header = records.first else {
            throw CSVRecords.Malformed(line: 1, problem: "a header line is needed: \(columns.joined(separator: ","))")
        }
        let places = try places(header)
        var lines: [[ExactText]: Int] = [:]
        var products: [ConfiguredProduct] = []
        for record in records.dropFirst() {
            let product = try product(record, places, header.fields.count)
            let key = [ExactText(product.app), ExactText(product.productId)]
            if let first = lines.updateValue(record.line, forKey: key) {
                throw CSVRecords.Malformed(
                    line: record.line, problem: "\(product.productId) of \(product.app) is on line \(first) already")
            }
            products.append(product)
        }
        return products
    }

    private static let columns = ["app", "product_id", "kind", "duration", "entitlements"]

    /// Where each column stands.
    private static func places(_ header: CSVRecords.Record) throws(CSVRecords.Malformed) -> [String: Int] {
        var places: [String: Int] = [:]
        for (place, field) in header.fields.enumerated() {
            let name = trimmed(field)
            guard columns.contains(name) else {
                throw CSVRecords.Malformed(
                    line: header.line, problem: "there is no column \"\(name)\": \(columns.joined(separator: ", "))")
            }
            guard places.updateValue(place, forKey: name) == nil else {
                throw CSVRecords.Malformed(line: header.line, problem: "column \"\(name)\" is there twice")
            }
        }
        for name in columns.prefix(2) where places[name] == nil {
            throw CSVRecords.Malformed(line: header.line, problem: "column \"\(name)\" is missing")
        }
        return places
    }

    private static func product(
        _ record: CSVRecords.Record, _ places: [String: Int], _ count: Int
    ) throws(CSVRecords.Malformed) -> ConfiguredProduct {
        guard record.fields.count == count else {
            throw CSVRecords.Malformed(
                line: record.line, problem: "\(record.fields.count) fields, where the header has \(count)")
        }
        func field(_ name: String) -> String { places[name].map { trimmed(record.fields[$0]) } ?? "" }
        func optional(_ name: String) -> String? { field(name).isEmpty ? nil : field(name) }
        do throws(ConfiguredProduct.Malformed) {
            return try ConfiguredProduct(
                app: field("app"), productId: field("product_id"), kind: optional("kind"),
                duration: optional("duration"),
                entitlements: field("entitlements").split { $0 == ";" || $0.isWhitespace }.map(String.init))
        } catch {
            throw CSVRecords.Malformed(line: record.line, problem: error.description)
        }
    }

    private static func trimmed(_ text: String) -> String { text.trimmingCharacters(in: .whitespaces) }
}
