import AppStore
import Foundation
import TestSupport
import Testing

@Suite("The container of an app receipt")
struct ReceiptContainerTests {
    private static func container(
        _ change: (inout SignedReceipt.Shape) -> Void = { _ in }, roots: RootCertificates = SignedReceipt.roots
    ) throws -> ReceiptContainer? {
        var shape = SignedReceipt.Shape()
        change(&shape)
        return ReceiptContainer(
            Receipt(stored: try SignedReceipt.make(app: "com.example.magazine", shape)), roots: roots)
    }

    @Test("names its app, and is Apple's if its signature leads to a root, in each form that receipts have had")
    func signed() throws {
        for change: (inout SignedReceipt.Shape) -> Void in [
            { _ in }, { $0.isSHA1 = true }, { $0.isStreamed = true },
            {
                $0.isSHA1 = true
                $0.isStreamed = true
            },
        ] {
            let container = try Self.container(change)
            #expect(container?.bundleId == "com.example.magazine")
            #expect(container?.isSignedByApple == true)
        }
    }

    @Test("can be one that OpenSSL wrote", arguments: ["receipt-sha256.p7", "receipt-sha1-streamed.p7"])
    func openSSL(_ file: String) throws {
        func fixture(_ name: String) throws -> [UInt8] {
            Array(try Data(contentsOf: KnownInput.tests.appendingPathComponent("AppStoreTests/Fixtures/\(name)")))
        }
        let roots = try #require(RootCertificates(file: try fixture("receipt-root.der")))
        let receipt = Receipt(stored: try fixture(file))

        #expect(ReceiptContainer(receipt, roots: roots)?.bundleId == "com.example.magazine")
        #expect(ReceiptContainer(receipt, roots: roots)?.isSignedByApple == true)
        #expect(ReceiptContainer(receipt)?.isSignedByApple == false)
    }

    @Test("is not Apple's if a byte, a certificate or the root is another")
    func unsigned() throws {
        #expect(try Self.container({ $0.isChanged = true })?.isSignedByApple == false)
        #expect(try Self.container({ $0.leafMaySign = false })?.isSignedByApple == false)
        #expect(try Self.container({ $0.issuerIsAppleRelations = false })?.isSignedByApple == false)
        #expect(try Self.container(roots: .apple)?.isSignedByApple == false)
    }

    @Test("is none if the bytes are a transaction receipt, noise, or cut off")
    func none() throws {
        let receipt = try SignedReceipt.make(app: "com.example.magazine")
        #expect(ReceiptContainer(Receipt(stored: Array("{\n\t\"signature\" = \"A=\";\n}".utf8))) == nil)
        #expect(ReceiptContainer(Receipt(stored: [])) == nil)
        #expect(ReceiptContainer(Receipt(stored: [0x30, 0x82, 0x01, 0x00] + [UInt8](repeating: 7, count: 256))) == nil)
        #expect(ReceiptContainer(Receipt(stored: Array(receipt.dropLast()))) == nil)
        var random = TestSeed.generator(5)
        for _ in 0..<2000 {
            var changed = receipt
            for _ in 0..<3 {
                changed[Int.random(in: changed.indices, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            _ = ReceiptContainer(Receipt(stored: changed), roots: SignedReceipt.roots)
        }
    }
}
