import Encoding

extension JSONValue {
    /// An integer as JSON Schema has it, which `72.0` is too; nil for anything else.
    var integer: Int64? {
        guard !isString else { return nil }
        return int64 ?? Double(String(decoding: bytes, as: UTF8.self)).flatMap { Int64(exactly: $0) }
    }
}
