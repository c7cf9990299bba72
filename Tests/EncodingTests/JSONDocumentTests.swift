import Encoding
import Foundation
import Testing

private func problem(_ bytes: [UInt8]) -> JSONError.Problem? {
    do {
        _ = try JSONDocument(bytes)
        return nil
    } catch {
        return error.problem
    }
}

private func accepts(_ text: String) -> Bool {
    problem(Array(text.utf8)) == nil
}

/// The accept and reject cases follow the names and contents of the public JSONTestSuite.
@Suite("Reading JSON")
struct JSONDocumentTests {
    @Test(
        "well-formed texts are accepted",
        arguments: [
            "[]", "{}", "null", "true", "false", "\"\"", " [] ", "\t\n\r {} \n", "0", "-0", "42", "-1",
            "[1E22]", "[1e-2]", "[1e+2]", "[0e+1]", "[0e1]", "[0.1]", "[123.456e78]", "[20e1]", "[-123]",
            "[123.456789]",
            "[-0.000000000000000000000000000000000000000000000000000000000000000000000000000001]",
            "[123123123123123123123123123123]", "[0.4e006699999999999999999999999999999999999]",
            #"{"asd":"sdf", "dfg":"fgh"}"#, #"{"a":"b","a":"c"}"#, #"{"":0}"#, #"{"foo\u0000bar": 42}"#,
            #"{"x":[{"id":"x"}], "id":"x"}"#, "{\n\"a\": \"b\"\n}", "[1,null,null,null,2]", "[null, 1, \"1\", {}]",
            #"["\u0060\u012a\u12AB"]"#, #"["\uD801\udc37"]"#, #"["\"\\\/\b\f\n\r\t"]"#, #"["\\u0000"]"#,
            #"["a/*b*/c"]"#,
            #"["\uFFFF"]"#, #"["\u0000"]"#, "[\"\u{7F}\"]", "[\"\u{2028}\"]", "[\"€𝄞\"]", "[\"asd \"]",
        ])
    func acceptsWellFormed(text: String) {
        #expect(accepts(text))
    }

    @Test(
        "malformed numbers are rejected",
        arguments: [
            "[-]", "[+1]", "[-01]", "[01]", "[012]", "[-012]", "[1.]", "[.1]", "[-.123]", "[0.e1]", "[2.e3]", "[1e]",
            "[1e+]", "[1eE2]", "[0e]", "[0E+]", "[1.0e]", "[1.0e-]", "[9.e+]", "[1 000.0]", "[Inf]", "[NaN]", "[-NaN]",
            "[Infinity]", "[-Infinity]", "[0x1]", "[0x42]", "[1a]", "[1.2a-3]", "[1.8011670033376514H-308]", "[++1234]",
            "[- 1]", "[--1.]", "[0.1.2]", "[-1x]", "[1_000]", "[１]", "-", "1.", "01", "1e",
        ])
    func refusesNumbers(text: String) {
        #expect(!accepts(text))
    }

    @Test(
        "malformed strings are rejected",
        arguments: [
            #"["\x00"]"#, #"["\a"]"#, #"["\u00A"]"#, #"["\u"]"#, #"["\u{66}"]"#, #"["\uqqqq"]"#, #"["\uD834\u00"]"#,
            #"["\"#, #"["\"]"#, #"["\\\"]"#, "[\"", "[\"a", "['single']", "[abc]", #"["\U0061"]"#, #"[\n]"#, #"["a"b]"#,
            #""\uD83"#, #"["\0"]"#, "[“quoted”]",
        ])
    func refusesStrings(text: String) {
        #expect(!accepts(text))
    }

    @Test(
        "malformed structures are rejected",
        arguments: [
            "[1,]", "[,1]", "[1,,2]", "[,]", "[\"a\",\n", "[1", "[", "]", "[]]", "[][]", "[1]x", "[1}", "{]", "{", "}",
            "{,}", #"{"a":1,}"#, #"{"a":1,,"b":2}"#, #"{"a" 1}"#, #"{"a":}"#, #"{"a"}"#, #"{"a":1 "b":2}"#, "{a:1}",
            "{1:1}", "{'a':0}", "{null:1}", #"{"a":1}}"#, #"{"a":1}#"#, #"{"a":/*c*/1}"#, #"{"a":1}//c"#, "#c\n{}",
            #"{"a"::1}"#, #"{"a":1:2}"#, "[1:2]", "[1 true]", "[\"a\":1]", "nul", "nulll", "True", "TRUE", "[fals]",
            "[nan]", "*", "{\"a\":\"b\"", "<.>", "{{}}", "[{}{}]", "{[]:1}", "{}{}", "1 2", ":", ",",
        ])
    func refusesStructures(text: String) {
        #expect(!accepts(text))
    }

    @Test("an empty text and one of only whitespace are rejected")
    func empty() {
        #expect(problem([]) == .empty)
        #expect(problem(Array(" \n\t".utf8)) != nil)
    }

    @Test("control characters are rejected in strings and between values", arguments: UInt8(0)..<32)
    func controlCharacters(byte: UInt8) {
        let inString = Array("[\"a".utf8) + [byte] + Array("b\"]".utf8)
        let between = Array("[1".utf8) + [byte] + Array("]".utf8)

        #expect(problem(inString) == .controlCharacter)
        #expect((problem(between) == nil) == [0x09, 0x0A, 0x0D].contains(byte))
    }

    @Test(
        "only the four JSON whitespace characters separate values",
        arguments: ["\u{A0}", "\u{C}", "\u{B}", "\u{2003}", "\u{FEFF}"])
    func otherBlanks(blank: String) {
        #expect(!accepts("[\(blank)1]"))
        #expect(!accepts("[1]\(blank)"))
    }

    /// RFC 8259, section 8.1, allows a parser to skip the mark at the start; anywhere else it is not part of JSON.
    @Test("a UTF-8 byte order mark is skipped at the start and rejected elsewhere")
    func byteOrderMark() {
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]

        #expect(problem(mark + Array("{}".utf8)) == nil)
        #expect(problem(mark + mark + Array("{}".utf8)) != nil)
        #expect(problem(Array("[".utf8) + mark + Array("]".utf8)) != nil)
        #expect(problem(Array("{}".utf8) + mark) != nil)
        #expect(problem(mark) != nil)
        #expect(problem([0xEF, 0xBB] + Array("{}".utf8)) != nil)
    }

    @Test("other Unicode encodings are rejected")
    func encodings() {
        #expect(problem([0xFE, 0xFF, 0x00, 0x7B, 0x00, 0x7D]) != nil)
        #expect(problem([0xFF, 0xFE, 0x7B, 0x00, 0x7D, 0x00]) != nil)
        #expect(problem([0x7B, 0x00, 0x7D, 0x00]) != nil)
        #expect(problem([0x00, 0x7B, 0x00, 0x7D]) != nil)
        #expect(problem([0x00, 0x00, 0x00, 0x7B, 0x00, 0x00, 0x00, 0x7D]) != nil)
    }

    @Test("nesting is read to 512 levels and rejected beyond, at any depth")
    func depth() {
        func nested(_ levels: Int, open: String, close: String) -> [UInt8] {
            Array((String(repeating: open, count: levels) + String(repeating: close, count: levels)).utf8)
        }

        #expect(problem(nested(512, open: "[", close: "]")) == nil)
        #expect(problem(nested(513, open: "[", close: "]")) == .tooDeep)
        #expect(problem(nested(100_000, open: "[", close: "]")) == .tooDeep)
        #expect(problem(Array(String(repeating: #"{"a":"#, count: 100_000).utf8)) == .tooDeep)
        #expect(problem(Array(String(repeating: "[{\"a\":", count: 50_000).utf8)) == .tooDeep)
    }

    @Test("the error has the offset of the first invalid byte")
    func errorOffset() {
        let error = #expect(throws: JSONError.self) { try JSONDocument(Array("[1, 2 x]".utf8)) }

        #expect(error?.offset == 6)
        #expect(error?.problem == .unexpectedByte)
    }

    @Test("the last of several equal keys is used, even if one is written with escapes")
    func duplicateKeys() throws {
        let document = try JSONDocument(Array(#"{"a": 1, "b": 2, "a": 3, "\u0062": 4}"#.utf8))
        let entries = document.root.entries(named: "a")

        #expect(document.root["a"]?.int64 == 3)
        #expect(document.root["b"]?.int64 == 4)
        #expect(entries.last?.int64 == 3)
        #expect(entries.count == 2)
        #expect(entries.bits == 0b0101)
        #expect(document.root.values(named: "a").map(\.int64) == [1, 3])
    }

    @Test("keys of nested objects are not keys of the outer one")
    func nestedKeys() throws {
        let document = try JSONDocument(Array(#"{"x": {"a": 1, "y": [{"a": 2}]}, "z": "a"}"#.utf8))

        #expect(document.root["a"] == nil)
        #expect(document.root["x"]?["a"]?.int64 == 1)
        #expect(document.root["x"]?["y"]?.elements.first?["a"]?.int64 == 2)
    }

    @Test(
        "64-bit ids keep every digit",
        arguments: [
            "9007199254740993", "9223372036854775807", "-9223372036854775808", "18446744073709551615",
            "1000000588791509",
        ])
    func ids(digits: String) throws {
        let document = try JSONDocument(Array("[\(digits)]".utf8))

        #expect(document.root.elements.first?.numberText == digits)
        #expect(document.root.elements.first?.int64 == Int64(digits))
    }

    @Test("numbers that are not a whole 64-bit number have text and no integer", arguments: ["1.0", "1e3", "-0.5"])
    func fractions(text: String) throws {
        let document = try JSONDocument(Array(text.utf8))

        #expect(document.root.numberText == text)
        #expect(document.root.int64 == nil)
    }

    @Test(
        "escapes are decoded",
        arguments: [
            (#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{C}\n\r\t"), (#""\u0041\u00e9\u20AC""#, "A\u{E9}€"),
            (#""\uD834\uDD1E""#, "𝄞"), (#""\u0000""#, "\u{0}"), (#""a\u005Cn""#, "a\\n"), (#""€𝄞""#, "€𝄞"),
            ("\"\"", ""),
        ])
    func escapes(text: String, expected: String) throws {
        let document = try JSONDocument(Array(text.utf8))

        #expect(document.root.string == expected)
    }

    @Test(
        "a lone surrogate has no string value",
        arguments: [
            #""\uD800""#, #""\uDC00""#, #""\uD800\uD800""#, #""\uDC00\uD800""#, #""\uD800x""#, #""\uD800\n""#,
            #""x\uDFFF""#, #""\uD834\u0041""#,
        ])
    func loneSurrogates(text: String) throws {
        let document = try JSONDocument(Array(text.utf8))

        #expect(document.root.isString)
        #expect(document.root.string == nil)
    }

    @Test(
        "invalid UTF-8 inside a string has no string value",
        arguments: [
            [0xFF], [0x80], [0xC0, 0x80], [0xE2, 0x82], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80],
            [0xF8, 0x88, 0x80],
            [0x61, 0xE9], [0xE0, 0x80, 0xAF],
        ] as [[UInt8]])
    func invalidUTF8(bytes: [UInt8]) throws {
        let document = try JSONDocument([0x22] + bytes + [0x22])

        #expect(document.root.string == nil)
    }

    @Test("bytes beyond ASCII are rejected outside strings", arguments: [[0xE9], [0xFF], [0xC3, 0xA9]] as [[UInt8]])
    func bytesOutsideStrings(bytes: [UInt8]) {
        #expect(problem([0x5B] + bytes + [0x5D]) != nil)
        #expect(problem([0x5B, 0x5D] + bytes) != nil)
    }

    @Test("reading a value as another type gives no value")
    func otherKinds() throws {
        let root = try JSONDocument(Array(#"{"t": "1", "n": 1, "b": true, "z": null, "l": [], "o": {}}"#.utf8)).root

        #expect(root["t"]?.int64 == nil && root["t"]?.numberText == nil && root["t"]?.bool == nil)
        #expect(root["n"]?.string == nil && root["n"]?.bool == nil)
        #expect(root["b"]?.bool == true && root["b"]?.string == nil)
        #expect(root["z"]?.isNull == true && root["z"]?.bool == nil)
        #expect(root["l"]?.isArray == true && root["l"]?["a"] == nil)
        #expect(root["o"]?.isObject == true && root["o"]?.elements.isEmpty == true)
        #expect(root["missing"] == nil)
    }

    @Test("every proper prefix of a JSON text is rejected")
    func prefixes() throws {
        let text = Array(#"{"a": [1.5e3, "x\u0041\n", true, false, null, {"b": -0}]}"#.utf8)

        let accepted = text.indices.filter { problem(Array(text[..<$0])) == nil }

        #expect(problem(text) == nil)
        #expect(accepted == [])
    }
}
