import Encoding
import Subscriptions

/// A decoded compact JWS (RFC 7515). Not verified, so it must not be trusted.
package struct JWS: Sendable {
    /// Its three segments: the header in base64url, the payload and the signature also decoded.
    let content: JWSText
    /// The signed bytes: header and payload as they arrived, with the dot between them.
    let signedText: ArraySlice<UInt8>
    package let payload: JSONDocument

    /// The header in base64url.
    var header: ArraySlice<UInt8> { content.header }
    var signature: [UInt8] { content.signature.bytes }

    /// Three certificates take about 6,000 characters.
    static let headerCharactersMax = 64 << 10

    /// - Parameter text: Three base64url segments with dots between them.
    package init(_ text: ArraySlice<UInt8>) throws(MalformedJWS) {
        let dot = UInt8(ascii: ".")
        guard let first = text.firstIndex(ofByte: dot), let second = text[(first + 1)...].firstIndex(ofByte: dot),
            text[(second + 1)...].firstIndex(ofByte: dot) == nil
        else { throw .notThreeSegments }
        let header = text[..<first]
        guard header.count <= Self.headerCharactersMax else { throw .headerTooLong }
        guard let payloadText = Base64Text(text[(first + 1)..<second], .url),
            let signatureText = Base64Text(text[(second + 1)...], .url)
        else { throw .notBase64 }
        content = JWSText(header: header, payload: payloadText, signature: signatureText)
        signedText = text[..<second]
        do throws(JSONError) {
            payload = try JSONDocument(payloadText.bytes)
        } catch {
            throw .payloadNotJSON
        }
        guard payload.root.isObject else { throw .payloadNotAnObject }
    }

    /// The time of signing in the payload, which app transactions call `receiptCreationDate`; nil if there is none.
    var signedDate: Instant? {
        var fields = JSONFields(payload.root)
        return fields.instant("signedDate") ?? fields.instant("receiptCreationDate")
    }
}

/// Why a text is not a JWS whose payload is a JSON object.
package enum MalformedJWS: String, Error, Sendable, CaseIterable {
    case notThreeSegments = "jws_segments"
    case headerTooLong = "jws_header_too_long"
    case notBase64 = "jws_base64"
    case payloadNotJSON = "jws_payload_not_json"
    case payloadNotAnObject = "jws_payload_not_an_object"

    package var explanation: String {
        switch self {
        case .notThreeSegments: "does not consist of three segments separated by dots"
        case .headerTooLong: "has a header of more than \(JWS.headerCharactersMax) characters"
        case .notBase64: "has a payload or signature that is not base64url without padding"
        case .payloadNotJSON: "has a payload that is not JSON"
        case .payloadNotAnObject: "has a payload that is JSON, but not an object"
        }
    }
}
