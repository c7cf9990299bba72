import Encoding
import Hummingbird

extension BodyReader {
    /// Like ``withBody(of:_:)``, for a body that must be a JSON object.
    func withJSON<Value>(
        of request: Request, bytesMax: Int = Limits.bodyBytesMax, _ use: (JSONValue) async throws -> Value
    ) async throws -> Value {
        try await withBody(of: request, bytesMax: bytesMax) { body in
            let json = try JSONDocument(body).root
            guard json.isObject else { throw RequestQuery.Malformed(problem: "the body must be an object") }
            return try await use(json)
        }
    }
}

extension JSONValue {
    /// The instant of a member; nil if absent.
    ///
    /// - Parameter path: The place of this value in the body, for errors.
    func instant(_ key: StaticString, in path: String) throws(RequestQuery.Malformed) -> Instant? {
        guard let value = self[key] else { return nil }
        guard let instant = value.string.flatMap({ Instant(iso8601: $0) }) else {
            throw RequestQuery.Malformed(
                problem: "\(path)\(key) must be an ISO 8601 instant such as 2019-11-08T08:11:46Z",
                field: "\(path)\(key)")
        }
        return instant
    }
}
