import Foundation

/// A value of JSON.
indirect enum JSONTree: Decodable, Hashable {
    case null
    case bool(Bool)
    case number(Double)
    case string(String)
    case array([JSONTree])
    case object([String: JSONTree])

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Double.self) {
            self = .number(value)
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let value = try? container.decode([JSONTree].self) {
            self = .array(value)
        } else {
            self = .object(try container.decode([String: JSONTree].self))
        }
    }

    /// The members of an object; empty for other values.
    var members: [String: JSONTree] { if case .object(let members) = self { members } else { [:] } }

    /// The elements of an array; empty for other values.
    var elements: [JSONTree] { if case .array(let elements) = self { elements } else { [] } }

    var string: String? { if case .string(let text) = self { text } else { nil } }

    subscript(name: String) -> JSONTree? { members[name] }
}

/// The document of the private listener, and the schemas of JSON Schema that it contains.
///
/// Checks the keywords that the document uses for answers; a schema with another one fails, so that none is overlooked.
struct OpenAPISchema {
    let document: JSONTree

    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("Sources/HTTPServer/OpenAPI")

    /// - Parameter name: `asyncapi.json` for the document of the messages to endpoints.
    static func read(_ name: String = "openapi.json") throws -> OpenAPISchema {
        let file = folder.appendingPathComponent(name)
        return OpenAPISchema(document: try JSONDecoder().decode(JSONTree.self, from: Data(contentsOf: file)))
    }

    /// Returns what `value` is, if it is a reference to a component.
    func resolved(_ value: JSONTree) -> JSONTree? {
        guard let reference = value["$ref"]?.string else { return value }
        return reference.split(separator: "/").dropFirst().reduce(Optional(document)) { $0?[String($1)] }
    }

    /// Returns why a value does not fit a schema, with the path to the place; empty if it fits.
    func problems(of value: JSONTree, _ schema: JSONTree, at path: String = "") -> [String] {
        guard let schema = resolved(schema) else { return ["\(path): no such component"] }
        return schema.members.flatMap { keyword, rule in problems(of: value, keyword, rule, schema, at: path) }
    }

    private func problems(
        of value: JSONTree, _ keyword: String, _ rule: JSONTree, _ schema: JSONTree, at path: String
    ) -> [String] {
        func expect(_ isFitting: Bool) -> [String] { isFitting ? [] : ["\(path): \(keyword)"] }
        switch keyword {
        case "description", "examples", "format", "contentEncoding", "default": return []
        case "type":
            let names = rule.string.map { [$0] } ?? rule.elements.compactMap(\.string)
            return expect(names.contains { Self.is(value, $0) })
        case "enum": return expect(rule.elements.contains(value))
        case "const": return expect(rule == value)
        case "properties":
            return rule.members.flatMap { name, schema in
                value[name].map { problems(of: $0, schema, at: "\(path)/\(name)") } ?? []
            }
        case "required": return expect(rule.elements.compactMap(\.string).allSatisfy { value[$0] != nil })
        case "items":
            return value.elements.enumerated().flatMap { problems(of: $1, rule, at: "\(path)/\($0)") }
        case "maxItems": return expect(Self.number(rule).map { Double(value.elements.count) <= $0 } ?? false)
        case "minimum": return expect(Self.number(value, isAtLeast: rule))
        case "pattern":
            guard let text = value.string, let pattern = rule.string else { return [] }
            return expect(text.range(of: pattern, options: .regularExpression) != nil)
        case "allOf": return rule.elements.flatMap { problems(of: value, $0, at: path) }
        case "oneOf":
            return expect(rule.elements.count { problems(of: value, $0, at: path).isEmpty } == 1)
        default: return ["\(path): the keyword \(keyword) is not checked"]
        }
    }

    private static func number(_ value: JSONTree) -> Double? {
        if case .number(let number) = value { number } else { nil }
    }

    private static func number(_ value: JSONTree, isAtLeast minimum: JSONTree) -> Bool {
        guard let value = number(value), let minimum = number(minimum) else { return true }
        return value >= minimum
    }

    private static func `is`(_ value: JSONTree, _ type: String) -> Bool {
        switch (type, value) {
        case ("null", .null), ("boolean", .bool), ("number", .number), ("string", .string), ("array", .array),
            ("object", .object):
            true
        case ("integer", .number(let number)): number.rounded() == number
        default: false
        }
    }
}
