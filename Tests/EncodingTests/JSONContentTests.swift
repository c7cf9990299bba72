import Encoding
import Testing

@Suite("Comparing the content of JSON values")
struct JSONContentTests {
    private static func areSame(_ left: String, _ right: String) throws -> Bool {
        try JSONDocument(Array(left.utf8)).root.hasSameContent(as: JSONDocument(Array(right.utf8)).root)
    }

    @Test(
        "white space, the order of members and escapes do not matter",
        arguments: [
            ("{}", " { } "), ("[]", "[ ]"), (#"{"a": 1, "bb": [true, null]}"#, #"{"bb":[true,null],"a":1}"#),
            (#"{"a": {"b": "c", "d": {}}}"#, #"{"a":{"d":{},"b":"c"}}"#), (#""\u00e9""#, #""é""#),
            (#"{"\u007f": "\/"}"#, "{\"\u{7F}\":\"/\"}"), (#"[{"a": 1}, {"a": 2}]"#, #"[{"a":1},{"a":2}]"#),
        ])
    func same(left: String, right: String) throws {
        #expect(try Self.areSame(left, right))
        #expect(try Self.areSame(right, left))
        #expect(try Self.areSame(left, left))
    }

    @Test(
        "any other difference does",
        arguments: [
            ("{}", "[]"), ("null", "false"), ("true", "false"), ("1", #""1""#), ("1", "1.0"), ("0", "-0"), ("1", "10"),
            (#""a""#, #""b""#), (#""é""#, "\"e\u{301}\""), (#""\ud800""#, "\"\u{FFFD}\""), ("[1,2]", "[2,1]"),
            ("[1]", "[1,1]"), ("[]", "[null]"), (#"{"a":1}"#, #"{"a":1,"b":1}"#), (#"{"a":1}"#, #"{"b":1}"#),
            ("{}", #"{"a":1}"#), (#"{"a":null}"#, "{}"), (#"{"a":{"b":1}}"#, #"{"a":{"b":2}}"#),
            (#"{"a":"b"}"#, #"{"b":"a"}"#), (#"{"a":[{}]}"#, #"{"a":[{},{}]}"#),
        ])
    func different(left: String, right: String) throws {
        #expect(try !Self.areSame(left, right))
        #expect(try !Self.areSame(right, left))
    }

    @Test("an object that repeats a key is like none")
    func repeated() throws {
        #expect(try !Self.areSame(#"{"a":1,"b":2}"#, #"{"a":1,"b":2,"a":1}"#))
        #expect(try !Self.areSame(#"{"a":1,"b":2}"#, #"{"a":1,"a":1}"#))
        #expect(try !Self.areSame(#"{"a":1}"#, #"{"a":1,"a":1}"#))
    }
}
