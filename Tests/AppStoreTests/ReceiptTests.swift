import AppStore
import Encoding
import Testing

@Suite("Receipts are read from base64")
struct ReceiptTests {
    /// The first bytes of an app receipt: a DER sequence.
    private let app: [UInt8] = [0x30, 0x82, 0x01, 0xFB, 0xFF, 0xBE, 0x00]

    @Test("the style of a receipt follows from its first byte")
    func style() {
        #expect(Receipt(stored: app).style == .app)
        #expect(Receipt(stored: Array("{\n\t\"signature\" = \"A=\";\n}".utf8)).style == .transaction)
        #expect(Receipt(stored: []).style == .transaction)
    }

    @Test(
        "padding may be missing and line breaks are ignored",
        arguments: ["MIIB+/++AA==", "MIIB+/++AA", "MIIB\r\n+/++\nAA==\n", "\nMIIB+/++AA\n"])
    func spellings(text: String) throws {
        let receipt = try Receipt(base64: text)

        #expect(receipt.bytes == app)
        #expect(receipt.base64 == "MIIB+/++AA==")
        #expect(receipt == Receipt(stored: app))
    }

    @Test("the digest is the SHA-256 of the decoded bytes")
    func digest() throws {
        // The SHA-256 of "abc" as published in FIPS 180-2.
        #expect(
            Hex.text(try Receipt(base64: "YWJj").digest)
                == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    }

    @Test(
        "a text that is not a receipt is rejected with its problem",
        arguments: [
            ("", ReceiptProblem.empty), (" ", .empty), ("\r\n", .empty),
            ("MIIB /  AA==", .blanksInsteadOfPlus), ("MIIB+/++AA== ", .blanksInsteadOfPlus),
            ("MIIB-_--AA==", .notBase64), ("MIIB%2B/++AA==", .notBase64), ("M", .notBase64), ("MI=I", .notBase64),
            ("MII...", .notBase64), ("MIIB+/++AA=", .notBase64), ("MIIB+/++AB==", .notBase64),
        ])
    func problems(text: String, problem: ReceiptProblem) {
        #expect(throws: problem) { try Receipt(base64: text) }
    }

    @Test("5 MiB of base64 are accepted and one character more is not")
    func length() throws {
        let longest = String(repeating: "M", count: Receipt.bytesMax)

        #expect(Receipt.bytesMax == 5 * 1_048_576)
        #expect(try Receipt(base64: longest).bytes.count == 5 * 1_048_576 / 4 * 3)
        #expect(throws: ReceiptProblem.tooLong) { try Receipt(base64: longest + "\n") }
    }

    @Test("a request contains the receipt in base64, and the secret if there is one")
    func request() {
        let receipt = Receipt(stored: app)

        #expect(
            String(decoding: ReceiptRequest.body(receipt, secret: testSecret), as: UTF8.self)
                == #"{"receipt-data":"MIIB+/++AA==","password":"0123456789abcdef0123456789abcdef"}"#)
        #expect(
            String(decoding: ReceiptRequest.body(receipt, secret: nil), as: UTF8.self)
                == #"{"receipt-data":"MIIB+/++AA=="}"#)
    }
}
