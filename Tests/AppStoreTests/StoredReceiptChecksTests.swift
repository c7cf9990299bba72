import AppStore
import Encoding
import Testing

@Suite("The checks of a receipt that was checked before")
struct StoredReceiptChecksTests {
    private static func text(_ status: Int, refusal: ReceiptRefusal?) -> String {
        let checks = ReceiptChecks(
            stored: ReceiptStatus(number: status), refusal: refusal?.label,
            registration: refusal == nil ? .known : nil, isInForce: refusal == nil ? false : nil)
        var writer = JSONWriter()
        checks.write(to: &writer)
        return writer.text
    }

    @Test("an accepted receipt has all four checks")
    func accepted() {
        for status in [0, 21006] {
            #expect(
                Self.text(status, refusal: nil)
                    == #"{"genuine":{"result":true,"status":\#(status)},"ofThisApp":true,"registered":"known","inForce":false}"#
            )
        }
    }

    @Test("a refused receipt has the checks that were reached")
    func refused() {
        #expect(
            Self.text(21003, refusal: .status(ReceiptStatus(number: 21003)))
                == #"{"genuine":{"result":false,"status":21003}}"#)
        #expect(Self.text(21010, refusal: .nothingKnown) == #"{"genuine":{"result":false,"status":21010}}"#)
        #expect(Self.text(0, refusal: .otherApp) == #"{"genuine":{"result":true,"status":0},"ofThisApp":false}"#)
        #expect(
            Self.text(0, refusal: .environmentRefused(.sandbox))
                == #"{"genuine":{"result":true,"status":0},"ofThisApp":true}"#)
    }
}
