import Encoding
import TestSupport
import Testing

@Suite("Writing JSON")
struct JSONWriterTests {
    @Test("absent members are omitted, and the others are written in the given order")
    func members() {
        var writer = JSONWriter()

        writer.object {
            $0.member("text", "a")
            $0.member("missingText", nil as String?)
            $0.member("number", 9_007_199_254_740_993 as Int64?)
            $0.member("missingNumber", nil as Int?)
            $0.member("flag", false)
            $0.member("missingFlag", nil as Bool?)
            $0.member("date", Instant(milliseconds: 1_573_171_200_000))
            $0.member("missingDate", nil as Instant?)
        }

        #expect(
            writer.text
                == #"{"text":"a","number":9007199254740993,"flag":false,"date":"2019-11-08T00:00:00.000Z"}"#)
    }

    @Test(
        "any text is unchanged after it is written and read",
        arguments: [
            "", "a\"b\\c/d", "\n\r\t\u{8}\u{C}", "\u{0}\u{1}\u{1F}\u{7F}", "é€𝄞", "\u{2028}\u{2029}", "e\u{301}",
            "\u{FFFF}",
        ])
    func texts(text: String) throws {
        var writer = JSONWriter()

        writer.value(text)

        let read = try JSONDocument(writer.bytes).root.string
        #expect(read.map { Array($0.utf8) } == Array(text.utf8))
    }

    @Test("one thousand random texts are unchanged after they are written and read")
    func randomTexts() throws {
        var generator = TestSeed.generator(2)
        for _ in 0..<1000 {
            let scalars = (0..<Int.random(in: 0...12, using: &generator)).compactMap { _ in
                Unicode.Scalar(UInt32.random(in: 0...(generator.chance(50) ? 0x80 : 0x10FFFF), using: &generator))
            }
            var text = String.UnicodeScalarView()
            text.append(contentsOf: scalars)
            var writer = JSONWriter()

            writer.array([String(text), "end"]) { $0.value($1) }

            let read = try JSONDocument(writer.bytes).root.elements.map(\.string)
            if read.first??.unicodeScalars.elementsEqual(text) != true || read.count != 2 {
                Issue.record("\(scalars) was read as \(String(describing: read))")
            }
        }
    }
}
