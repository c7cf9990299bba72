import Encoding
import Foundation
import Subscriptions

/// A CSV file of products: a header line with app, product_id and optionally kind, duration and entitlements, in any
/// order; then one product per record. Entitlements are separated by spaces or semicolons.
enum ProductFile {
    /// An invalid file; the description is one line with the name of the file and the line number.
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
            throw CSVRecords.Malformed(
                line: 1, problem: "missing header line: expected \(columns.joined(separator: ","))")
        }
        let places = try places(header)
        var lines: [[ByteString]: Int] = [:]
        var products: [ConfiguredProduct] = []
        for record in records.dropFirst() {
            let product = try product(record, places, header.fields.count)
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

    private static let columns = ["app", "product_id", "kind", "duration", "entitlements"]

    /// The index of each column in the header.
    private static func places(_ header: CSVRecords.Record) throws(CSVRecords.Malformed) -> [String: Int] {
        var places: [String: Int] = [:]
        for (place, field) in header.fields.enumerated() {
            let name = trimmed(field)
            guard columns.contains(name) else {
                throw CSVRecords.Malformed(
                    line: header.line,
                    problem: "unknown column \"\(name)\": expected \(columns.joined(separator: ", "))")
            }
            guard places.updateValue(place, forKey: name) == nil else {
                throw CSVRecords.Malformed(line: header.line, problem: "duplicate column \"\(name)\"")
            }
        }
        for name in columns.prefix(2) where places[name] == nil {
            throw CSVRecords.Malformed(line: header.line, problem: "missing column \"\(name)\"")
        }
        return places
    }

    private static func product(
        _ record: CSVRecords.Record, _ places: [String: Int], _ count: Int
    ) throws(CSVRecords.Malformed) -> ConfiguredProduct {
        guard record.fields.count == count else {
            throw CSVRecords.Malformed(
                line: record.line, problem: "\(record.fields.count) fields: expected \(count), as in the header")
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
