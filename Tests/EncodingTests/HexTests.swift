import Encoding
import Testing

@Suite("Hexadecimal digits")
struct HexTests {
    private func bytes(_ text: String, acceptsUpperCase: Bool = false) -> [UInt8]? {
        Array(text.utf8).withUnsafeBufferPointer { Hex.bytes($0, acceptsUpperCase: acceptsUpperCase) }
    }

    @Test("every byte is unchanged after it is written and read")
    func allBytes() {
        let all = (0...255).map { UInt8($0) }

        #expect(Hex.text([0x00, 0x9A, 0xFF]) == "009aff")
        #expect(bytes(Hex.text(all)) == all)
    }

    @Test("a number has 16 digits")
    func number() {
        #expect(Hex.text(0xAB as UInt64) == "00000000000000ab")
        #expect(Hex.text(UInt64.max) == "ffffffffffffffff")
    }

    @Test(
        "an odd number of digits and other characters are rejected",
        arguments: ["0", "0g", "0/", "a:", "+1", " 0", "é"])
    func refused(text: String) {
        #expect(bytes(text) == nil)
        #expect(bytes(text, acceptsUpperCase: true) == nil)
    }

    @Test("upper-case digits are accepted only if requested")
    func upperCase() {
        #expect(bytes("aF") == nil)
        #expect(bytes("aF", acceptsUpperCase: true) == [0xAF])
    }
}
