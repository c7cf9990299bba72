import Subscriptions
import Testing

@testable import HTTPServer

@Suite("Cursors of the ids of a customer")
struct KeyCursorTests {
    @Test(
        "a cursor comes back as the id that it was made of",
        arguments: [
            CustomerKey(.link, "user 1 of é/?"), CustomerKey(.account, "7e3fb20b-4cdb-47cc-936d-99d65f608138"),
            CustomerKey(.appTransaction, "704000000000000002"), CustomerKey(.subscription, "1000000588791509"),
        ])
    func roundTrip(_ key: CustomerKey) {
        let text = KeyCursor(key).text

        #expect(KeyCursor(text)?.key == key)
        #expect(text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-" || $0 == "_") })
    }

    @Test(
        "a text of another kind or version is no cursor",
        arguments: ["i2 link u-1", "i1 user u-1", "i1 link", "i1 link a\0b", "c1 0 production com.example.magazine"])
    func refused(_ content: String) {
        #expect(KeyCursor(CursorText.encode(content)) == nil)
        #expect(KeyCursor(content) == nil)
    }

    @Test("a cursor with a changed letter, or with padding, is none")
    func changed() {
        let text = KeyCursor(CustomerKey(.subscription, "10")).text

        #expect(KeyCursor("\(text)=") == nil)
        #expect(KeyCursor("A\(text.dropFirst())") == nil)
    }
}
